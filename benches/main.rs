//! The programs of a measurement in one executable, because each would be linked for minutes; `benches/run`
//! drives them and `benches/README.md` says what they are for.
//!
//! ```text
//! bench bare LISTEN UPSTREAM
//! bench stock LISTEN UPSTREAM
//! bench upstream
//! bench load ADDRESS PATH REQUESTS CONNECTIONS [REQUEST_BYTES [HOST]]
//! bench events ADDRESS PATH STREAMS SKIPPED
//! bench open ADDRESS PATH STREAMS
//! bench crowd ADDRESS PATH STREAMS CONNECTIONS
//! bench steady ADDRESS PATH RATE SECONDS CONNECTIONS
//! bench rules [KIND TIMES]
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measurement may end by panicking"
)]

mod bare;
mod crowd;
mod load;
mod rules;
mod streams;
mod upstream;
mod wire;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (program, words) = words.split_first().expect("bench PROGRAM [WORD ...]");
    match program.as_str() {
        "bare" => bare::bare(words),
        "stock" => bare::stock(words),
        "upstream" => alone(upstream::run()),
        "load" => alone(load::run(words)),
        "events" => alone(streams::events(words)),
        "open" => alone(streams::open(words)),
        "crowd" => alone(crowd::crowd(words)),
        "steady" => alone(crowd::steady(words)),
        "rules" => rules::run(words),
        other => panic!("no program {other:?}"),
    }
}

/// Host and client have a thread each, so that they take no more than their share of the cores.
fn alone<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// The word at this place, if there is one.
fn word<T: std::str::FromStr>(words: &[String], place: usize) -> Option<T> {
    let parsed = words.get(place)?.parse();
    Some(parsed.unwrap_or_else(|_| panic!("not what it should be: {:?}", words[place])))
}
