//! Content codings, undone step by step: compressed bytes in, bounded pieces out, so that a bomb is
//! measured while it unfolds (C-3).

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use zstd::stream::raw::{Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

/// Bytes that come out at a time.
const PIECE: usize = 8 * 1024;
/// Codings that may be stacked on one body.
const STACK_MAX: usize = 3;
/// Zstandard windows up to 8 MiB, as RFC 9659 limits them.
const ZSTD_WINDOW_LOG: u32 = 23;

/// The bytes are not in the coding the head names, or nobody knows that coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

/// One content coding.
enum Step {
    /// Also finds out, from the first byte, whether a `deflate` body has its zlib wrapper.
    Flate {
        inner: Option<Decompress>,
        gzip: bool,
        ended: bool,
    },
    Brotli {
        inner: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
        ended: bool,
    },
    Zstd(ZstdDecoder<'static>),
}

/// How far one step got.
#[derive(Debug, Default)]
struct Progress {
    read: usize,
    written: usize,
    /// The bytes are not in the coding.
    broken: bool,
}

impl Step {
    fn new(name: &str) -> Result<Option<Self>, Undecodable> {
        Ok(Some(match name {
            "identity" | "" => return Ok(None),
            "gzip" | "x-gzip" => Self::Flate { inner: None, gzip: true, ended: false },
            "deflate" => Self::Flate { inner: None, gzip: false, ended: false },
            "br" => Self::Brotli {
                inner: Box::new(BrotliState::new(
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                )),
                ended: false,
            },
            "zstd" => {
                let mut decoder = ZstdDecoder::new().map_err(|_| Undecodable)?;
                decoder
                    .set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW_LOG))
                    .map_err(|_| Undecodable)?;
                Self::Zstd(decoder)
            }
            _ => return Err(Undecodable),
        }))
    }

    /// Decodes from `input` into `out`. What was written before the bytes turned out to be broken is told too: it
    /// would have come out had they come one by one (F-9).
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Progress {
        match self {
            Self::Flate { ended: true, gzip, inner } => {
                // Another gzip member may follow; anything else after the end is padding.
                if *gzip && input.first() == Some(&0x1f) {
                    *inner = None;
                    *self = Self::Flate { inner: None, gzip: true, ended: false };
                    return self.step(input, out);
                }
                Progress { read: input.len(), ..Progress::default() }
            }
            Self::Flate { inner, gzip, ended } => {
                let inner = match (inner, input.first()) {
                    (Some(inner), _) => inner,
                    (None, None) => return Progress::default(),
                    (slot @ None, Some(first)) => slot.insert(if *gzip {
                        Decompress::new_gzip(15)
                    } else {
                        Decompress::new(first & 0x8f == 0x08)
                    }),
                };
                let (before_in, before_out) = (inner.total_in(), inner.total_out());
                let status = inner.decompress(input, out, FlushDecompress::None);
                *ended = matches!(status, Ok(Status::StreamEnd));
                let since = |before: u64, now: u64| usize::try_from(now - before).unwrap_or_default();
                Progress {
                    read: since(before_in, inner.total_in()),
                    written: since(before_out, inner.total_out()),
                    broken: status.is_err(),
                }
            }
            Self::Brotli { ended: true, .. } => Progress { read: input.len(), ..Progress::default() },
            Self::Brotli { inner, ended } => {
                // One by one: when it fails it keeps what it has decoded of the same input.
                let input = input.get(..1).unwrap_or_default();
                let (mut left_in, mut read) = (input.len(), 0);
                let (mut left_out, mut written, mut total) = (out.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left_in,
                    &mut read,
                    input,
                    &mut left_out,
                    &mut written,
                    out,
                    &mut total,
                    inner,
                );
                *ended = matches!(result, BrotliResult::ResultSuccess);
                Progress { read, written, broken: matches!(result, BrotliResult::ResultFailure) }
            }
            Self::Zstd(inner) => {
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(out);
                let broken = inner.run(&mut from, &mut to).is_err();
                Progress { read: from.pos(), written: to.pos(), broken }
            }
        }
    }
}

/// Undoes the content codings of one body.
pub struct Decoder {
    /// The outermost coding first.
    steps: Vec<Step>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("steps", &self.steps.len()).finish()
    }
}

impl Decoder {
    /// From a head's `Content-Encoding`; `None` if the body is not encoded.
    ///
    /// # Errors
    /// A coding is unknown, or more are stacked than anybody sends.
    pub fn for_head(headers: &HeaderMap) -> Result<Option<Self>, Undecodable> {
        let mut steps = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            let names = value.to_str().map_err(|_| Undecodable)?.to_ascii_lowercase();
            for name in names.split(',') {
                steps.extend(Step::new(name.trim())?);
            }
        }
        if steps.len() > STACK_MAX {
            return Err(Undecodable);
        }
        steps.reverse();
        Ok(if steps.is_empty() { None } else { Some(Self { steps }) })
    }

    /// Decodes the next bytes. `sink` gets them in pieces and says whether it wants more.
    ///
    /// # Errors
    /// The bytes are not in the named coding.
    pub fn feed(&mut self, input: &[u8], sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Undecodable> {
        run(&mut self.steps, input, sink).map(|_| ())
    }
}

fn run(steps: &mut [Step], input: &[u8], sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, Undecodable> {
    let Some((step, inner)) = steps.split_first_mut() else { return Ok(sink(input)) };
    let mut out = vec![0; PIECE];
    let mut rest = input;
    loop {
        let Progress { read, written, broken } = step.step(rest, &mut out);
        rest = rest.get(read..).unwrap_or_default();
        if written > 0 && !run(inner, out.get(..written).unwrap_or_default(), sink)? {
            return Ok(false);
        }
        if broken {
            return Err(Undecodable);
        }
        if rest.is_empty() && written < out.len() || read == 0 && written == 0 {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn head(coding: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, coding.parse().unwrap());
        headers
    }

    fn encode(coding: &str, plain: &[u8]) -> Vec<u8> {
        match coding {
            "gzip" => {
                let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                w.write_all(plain).unwrap();
                w.finish().unwrap()
            }
            "deflate" => {
                let mut w = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                w.write_all(plain).unwrap();
                w.finish().unwrap()
            }
            "raw" => {
                let mut w = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                w.write_all(plain).unwrap();
                w.finish().unwrap()
            }
            "zstd" => zstd::encode_all(plain, 1).unwrap(),
            // A brotli stream of one uncompressed metablock, made by hand: there is no encoder here.
            _ => {
                let n = u32::try_from(plain.len() - 1).unwrap();
                let bits: u32 = n << 4 | 1 << 20; // window 16, not last, four nibbles, length, uncompressed
                let mut out = vec![
                    u8::try_from(bits & 0xff).unwrap(),
                    u8::try_from(bits >> 8 & 0xff).unwrap(),
                    u8::try_from(bits >> 16 & 0xff).unwrap(),
                ];
                out.extend_from_slice(plain);
                out.push(3);
                out
            }
        }
    }

    fn decode(coding: &str, bytes: &[u8], split: usize) -> Result<Vec<u8>, Undecodable> {
        let mut decoder = Decoder::for_head(&head(coding))?.unwrap();
        let mut out = Vec::new();
        for piece in bytes.chunks(split) {
            decoder.feed(piece, &mut |b| {
                out.extend_from_slice(b);
                true
            })?;
        }
        Ok(out)
    }

    #[test]
    fn c4_every_coding_in_every_split() {
        let plain = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001}}"#.repeat(300);
        for (name, how) in [
            ("gzip", "gzip"),
            ("X-GZip", "gzip"),
            ("deflate", "deflate"),
            ("deflate", "raw"),
            ("br", "br"),
            ("zstd", "zstd"),
        ] {
            let coded = encode(how, &plain);
            for split in [1, 2, 7, 4096, usize::MAX] {
                assert_eq!(decode(name, &coded, split).as_deref(), Ok(&plain[..]), "{name} {how} {split}");
            }
        }
        let twice = encode("gzip", &encode("zstd", &plain));
        assert_eq!(decode("zstd, gzip", &twice, 5).as_deref(), Ok(&plain[..]));
    }

    #[test]
    fn c4_two_gzip_members_are_one_body() {
        let mut coded = encode("gzip", b"one ");
        coded.extend(encode("gzip", b"two"));
        for split in [1, usize::MAX] {
            assert_eq!(decode("gzip", &coded, split).as_deref(), Ok(&b"one two"[..]));
        }
    }

    #[test]
    fn f6_unknown_and_broken_codings_are_undecodable() {
        assert_eq!(Decoder::for_head(&head("dcb")).unwrap_err(), Undecodable);
        assert_eq!(Decoder::for_head(&head("gzip, gzip, gzip, gzip")).unwrap_err(), Undecodable);
        assert!(Decoder::for_head(&head("identity")).unwrap().is_none());
        for coding in ["gzip", "zstd", "br", "deflate"] {
            assert!(decode(coding, b"<html>not at all, and long enough</html>", 3).is_err(), "{coding}");
        }
    }

    #[test]
    fn f9_what_came_before_the_broken_bytes_comes_in_any_split() {
        let plain = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001}}"#.repeat(300);
        for (coding, how) in [("gzip", "gzip"), ("deflate", "raw"), ("br", "br"), ("zstd", "zstd")] {
            let mut coded = encode(how, &plain);
            let half = coded.len() / 2;
            for byte in coded.iter_mut().skip(half) {
                *byte = 0xff;
            }
            let decoded = |split: usize| {
                let mut decoder = Decoder::for_head(&head(coding)).unwrap().unwrap();
                let mut out = Vec::new();
                let mut pieces = coded.chunks(split);
                let mut take = |piece: &[u8]| {
                    let sink = &mut |b: &[u8]| {
                        out.extend_from_slice(b);
                        true
                    };
                    decoder.feed(piece, sink).is_ok()
                };
                let ok = pieces.all(&mut take);
                (ok, out)
            };
            let (ok, whole) = decoded(usize::MAX);
            for split in [1, 2, 7, 64, 4096] {
                assert_eq!(decoded(split), (ok, whole.clone()), "{coding} {split}");
            }
        }
    }

    #[test]
    fn c3_a_bomb_is_stopped_while_it_unfolds() {
        let bomb = encode("gzip", &vec![b'a'; 64 << 20]);
        let mut decoder = Decoder::for_head(&head("gzip")).unwrap().unwrap();
        let mut seen = 0;
        decoder
            .feed(&bomb, &mut |b| {
                seen += b.len();
                seen < 1 << 20
            })
            .unwrap();
        assert!(seen <= (1 << 20) + PIECE, "{seen}");
    }
}
