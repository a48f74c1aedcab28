//! Whether one of two ways takes longer, told from paired times: the Wilcoxon signed-rank test, with the
//! matched-pairs rank-biserial correlation as its effect size. Ranks, because times have outliers.

/// What the pairs say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Pairs whose times differ.
    pub pairs: usize,
    /// Two-sided; by the normal approximation, corrected for ties and continuity.
    pub p: f64,
    /// From -1 (the first is always smaller) to 1 (always larger).
    pub effect: f64,
    /// Of the differences, first minus second.
    pub median: f64,
}

/// Compares pairs; `None` when fewer than ten differ, where the approximation does not hold.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "there are hundreds of pairs, not 2^53")]
pub fn signed_ranks(pairs: &[(f64, f64)]) -> Option<Ranked> {
    let mut all: Vec<f64> = pairs.iter().map(|(first, second)| first - second).collect();
    all.sort_by(f64::total_cmp);
    let median = {
        let at = |n: usize| all.get(n).copied().unwrap_or_default();
        f64::midpoint(at(all.len() / 2), at(all.len().saturating_sub(1) / 2))
    };
    let mut by_size: Vec<f64> = all.into_iter().filter(|difference| *difference != 0.0).collect();
    by_size.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let pairs = by_size.len();
    if pairs < 10 {
        return None;
    }
    let (mut plus, mut minus, mut ties) = (0.0, 0.0, 0.0);
    let mut rank = 0.0;
    for tied in by_size.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let count = tied.len() as f64;
        let shared = rank + f64::midpoint(1.0, count);
        rank += count;
        ties += count.powi(3) - count;
        for difference in tied {
            *(if *difference > 0.0 { &mut plus } else { &mut minus }) += shared;
        }
    }
    let n = pairs as f64;
    let expected = n * (n + 1.0) / 4.0;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    let distance = ((plus - expected).abs() - 0.5).max(0.0);
    let p = if variance > 0.0 { erfc(distance / variance.sqrt() / std::f64::consts::SQRT_2) } else { 1.0 };
    Some(Ranked { pairs, p, effect: (plus - minus) / (plus + minus), median })
}

/// The complementary error function for x ≥ 0, to 1.2e-7 (Numerical Recipes' Chebyshev fit).
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let sum = FIT.iter().rev().fold(0.0, |sum, term| sum * t + term);
    t * (sum - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    #[test]
    fn the_error_function_is_the_textbooks() {
        for (x, value) in [(0.0, 1.0), (0.5, 0.479_500), (1.0, 0.157_299), (2.0, 0.004_678), (3.0, 2.209e-5)]
        {
            assert!((erfc(x) - value).abs() < 1e-6, "{x}: {}", erfc(x));
        }
    }

    /// Differences 1..=10, one of them negative, worked by hand: W+ = 52 of 55, z = (24.5 - 0.5) / sqrt(96.25).
    #[test]
    fn ranks_are_summed_as_by_hand() {
        let pairs: Vec<(f64, f64)> =
            (1..=10).map(|n| if n == 3 { (0.0, 3.0) } else { (f64::from(n), 0.0) }).collect();
        let ranked = signed_ranks(&pairs).unwrap();
        assert!(near(ranked.effect, (52.0 - 3.0) / 55.0), "{ranked:?}");
        assert!(near(ranked.p, 0.014_43), "{ranked:?}");
        assert!(near(ranked.median, 5.5), "{ranked:?}");
    }

    #[test]
    fn ties_share_their_ranks_and_no_difference_is_no_pair() {
        let mut pairs = vec![(1.0, 0.0); 6];
        pairs.extend(vec![(0.0, 1.0); 6]);
        pairs.extend(vec![(2.0, 2.0); 5]);
        let ranked = signed_ranks(&pairs).unwrap();
        assert_eq!(ranked.pairs, 12);
        assert!(near(ranked.effect, 0.0) && near(ranked.p, 1.0), "{ranked:?}");
        assert!(signed_ranks(&pairs[..9]).is_none());
    }

    #[test]
    fn always_slower_is_told() {
        let pairs: Vec<(f64, f64)> = (0..30).map(|n| (5.0 + f64::from(n % 7), f64::from(n % 5))).collect();
        let ranked = signed_ranks(&pairs).unwrap();
        assert!(ranked.p < 1e-5 && near(ranked.effect, 1.0), "{ranked:?}");
    }
}
