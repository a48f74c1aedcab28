//! What each thread counts in a place of its own.
//!
//! A count that two threads add to is carried from one core to the other with every step, which costs more than the
//! step. Here a thread has its own, and who reads adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Histogram as Counts, Metric, MetricFamily};
use prometheus::{Histogram, HistogramOpts, IntGauge, Opts};

/// Places there are; with more threads than that some share one.
const PLACES: usize = 16;

thread_local! {
    static PLACE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % PLACES
    };
}

/// In a cache line by itself, and in the one that processors fetch with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// One of a kind for each thread.
#[derive(Debug)]
pub struct Shards<T> {
    first: Apart<T>,
    others: Vec<Apart<T>>,
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self { first: Apart::default(), others: (1..PLACES).map(|_| Apart::default()).collect() }
    }
}

impl<T> Shards<T> {
    /// # Errors
    /// What cannot be made.
    pub fn of<E>(mut make: impl FnMut() -> Result<T, E>) -> Result<Self, E> {
        let first = Apart(make()?);
        let others = (1..PLACES).map(|_| make().map(Apart)).collect::<Result<_, _>>()?;
        Ok(Self { first, others })
    }

    /// The calling thread's.
    pub fn mine(&self) -> &T {
        &self.others.get(PLACE.with(|place| *place)).unwrap_or(&self.first).0
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others).map(|apart| &apart.0)
    }
}

/// A histogram without labels.
#[derive(Debug, Clone)]
pub struct ShardedHistogram(Arc<Shards<Histogram>>);

impl ShardedHistogram {
    /// # Errors
    /// The name or the buckets are none that Prometheus takes.
    pub fn new(opts: &HistogramOpts) -> prometheus::Result<Self> {
        Ok(Self(Arc::new(Shards::of(|| Histogram::with_opts(opts.clone()))?)))
    }

    pub fn observe(&self, value: f64) {
        self.0.mine().observe(value);
    }
}

impl Collector for ShardedHistogram {
    fn desc(&self) -> Vec<&Desc> {
        self.0.first.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.0.first.0.collect();
        let all = self.0.iter().map(prometheus::core::Metric::metric);
        let counts = all.map(|metric| metric.get_histogram().clone()).reduce(|one, other| sum(one, &other));
        if let (Some(family), Some(counts)) = (families.first_mut(), counts) {
            let mut metric = Metric::default();
            metric.set_histogram(counts);
            family.set_metric(vec![metric]);
        }
        families
    }
}

/// Of two histograms with the same buckets.
fn sum(mut one: Counts, other: &Counts) -> Counts {
    let mut buckets = one.get_bucket().to_vec();
    for (bucket, more) in buckets.iter_mut().zip(other.get_bucket()) {
        bucket.set_cumulative_count(bucket.cumulative_count() + more.cumulative_count());
    }
    one.set_bucket(buckets);
    one.set_sample_count(one.get_sample_count() + other.get_sample_count());
    one.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
    one
}

/// A number that goes up and down, without labels.
#[derive(Debug, Clone)]
pub struct ShardedGauge {
    parts: Arc<Shards<AtomicI64>>,
    /// Their sum when it was last read.
    whole: IntGauge,
}

impl ShardedGauge {
    /// # Errors
    /// The name is none that Prometheus takes.
    pub fn new(opts: Opts) -> prometheus::Result<Self> {
        Ok(Self { parts: Arc::default(), whole: IntGauge::with_opts(opts)? })
    }

    /// By whichever thread: what one has begun another may end.
    pub fn add(&self, number: i64) {
        self.parts.mine().fetch_add(number, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

impl Collector for ShardedGauge {
    fn desc(&self) -> Vec<&Desc> {
        self.whole.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.whole.set(self.get());
        self.whole.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const THREADS: u8 = 32;

    /// On each of so many threads, more than there are places.
    fn everywhere(act: impl Fn() + Sync) {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(&act);
            }
        });
    }

    #[test]
    fn a_histogram_is_the_sum_of_its_threads() {
        let opts = HistogramOpts::new("taken_seconds", "help").buckets(vec![0.1, 1.0]);
        let histogram = ShardedHistogram::new(&opts).unwrap();
        everywhere(|| {
            histogram.observe(0.5);
            histogram.observe(2.0);
        });
        let families = histogram.collect();
        let counts = families[0].get_metric()[0].get_histogram();
        let of_buckets: Vec<_> =
            counts.get_bucket().iter().map(prometheus::proto::Bucket::cumulative_count).collect();
        let each = u64::from(THREADS);
        assert_eq!((of_buckets, counts.get_sample_count()), (vec![0, each], 2 * each));
        assert!((counts.get_sample_sum() - 2.5 * f64::from(THREADS)).abs() < 1e-9);
        assert_eq!(families[0].name(), "taken_seconds");
        assert!(histogram.0.iter().filter(|one| one.get_sample_count() > 0).count() > 1, "all in one place");
    }

    #[test]
    fn a_gauge_goes_down_on_another_thread() {
        let gauge = ShardedGauge::new(Opts::new("open", "help")).unwrap();
        everywhere(|| gauge.add(2));
        everywhere(|| gauge.add(-1));
        assert_eq!(gauge.get(), i64::from(THREADS));
        let shown = gauge.collect()[0].get_metric()[0].get_gauge().get_value();
        assert!((shown - f64::from(THREADS)).abs() < 0.1);
    }
}
