//! Upstream connections that wait for their next request.
//!
//! Pingora's own pool spawns a task, a timer and two channels for every request that ends, and asks the kernel
//! for the peer's address for every one that begins: a tenth of what a request costs. Connections of one service
//! stay on one thread, so that a list and one sweeper do the same: the connection used last is used next, one that
//! the host has closed or said something on is not used again, none waits longer than its host's idle timeout,
//! no more than so many wait in all, and none waits for an address that no host has any more.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pingora::protocols::Stream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::unconstrained;

/// How often those that wait are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// A service's idle connections.
pub struct Idle {
    most: usize,
    waiting: Mutex<Waiting>,
    is_wanted: IsWanted,
}

/// Whether connections to this peer may still be needed.
pub type IsWanted = Box<dyn Fn(u64) -> bool + Send + Sync>;

#[derive(Default)]
struct Waiting {
    /// By what makes connections interchangeable; the one used last is at the back.
    by_peer: HashMap<u64, VecDeque<Parked>, BuildHasherDefault<AsIs>>,
    count: usize,
    swept: bool,
    /// Counts sweeps: the clock of those that wait, since a real one costs too much twice a request.
    sweeps: u64,
}

/// What makes connections interchangeable is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Parked {
    stream: Stream,
    /// The number of the last sweep before.
    since: u64,
    /// None: as long as it lasts.
    patience: Option<Duration>,
}

impl Parked {
    /// It does not wait longer than it may, but for one [`SWEEP`].
    fn is_fresh(&self, sweeps: u64) -> bool {
        let waits = sweeps.saturating_sub(self.since).saturating_mul(SWEEP.as_secs());
        self.patience.is_none_or(|patience| waits < patience.as_secs().max(1))
    }
}

/// Whether the connection is open and has nothing to say, as one without a request must.
pub fn is_quiet(stream: &mut Stream) -> bool {
    let mut byte = [0];
    let read = poll_fn(|cx| {
        let read = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
        Poll::Ready(read.is_pending())
    });
    // Tokio lets a task that has done much wait even for what is there; that is not the connection's silence.
    let read = std::pin::pin!(unconstrained(read));
    // What reads a connection next registers its own waker.
    read.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(true)
}

impl Idle {
    /// Keeps at most `most` connections, while they are wanted.
    pub fn new(most: usize, is_wanted: IsWanted) -> Arc<Self> {
        Arc::new(Self { most, waiting: Mutex::default(), is_wanted })
    }

    /// The connection to `peer` that was used last and is still good.
    pub fn take(&self, peer: u64) -> Option<Stream> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut parked) = waiting.by_peer.get_mut(&peer)?.pop_back() {
            waiting.count -= 1;
            if is_quiet(&mut parked.stream) {
                return Some(parked.stream);
            }
        }
        None
    }

    /// Keeps a connection that is good for another request. When there are too many the one that waits longest goes.
    pub fn put(self: &Arc<Self>, peer: u64, stream: Stream, patience: Option<Duration>) {
        if self.most == 0 {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.count >= self.most {
            waiting.drop_oldest();
        }
        let since = waiting.sweeps;
        waiting.by_peer.entry(peer).or_default().push_back(Parked { stream, since, patience });
        waiting.count += 1;
        // Outside of a runtime nothing sweeps, and `take` looks all the same.
        if !waiting.swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            waiting.swept = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

impl Waiting {
    fn drop_oldest(&mut self) {
        let oldest = self.by_peer.iter().filter_map(|(peer, all)| Some((all.front()?.since, *peer))).min();
        if let Some((_, peer)) = oldest
            && let Some(all) = self.by_peer.get_mut(&peer)
        {
            all.pop_front();
            self.count -= 1;
        }
    }

    /// Closes what is not good any more; `false` when nothing waits.
    fn sweep(&mut self, is_wanted: &IsWanted) -> bool {
        self.sweeps += 1;
        let sweeps = self.sweeps;
        self.by_peer.retain(|peer, all| {
            if !is_wanted(*peer) {
                return false;
            }
            all.retain_mut(|parked| parked.is_fresh(sweeps) && is_quiet(&mut parked.stream));
            !all.is_empty()
        });
        self.count = self.by_peer.values().map(VecDeque::len).sum();
        self.count > 0
    }
}

/// Looks after `idle` until nothing waits there.
async fn sweep(idle: Weak<Idle>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut waiting = idle.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.sweep(&idle.is_wanted) {
            waiting.swept = false;
            return;
        }
    }
}

#[cfg(test)]
pub mod tests {
    use pingora::protocols::l4;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Where every peer is wanted.
    pub fn idle(most: usize) -> Arc<Idle> {
        Idle::new(most, Box::new(|_| true))
    }

    /// A connection, and its other end.
    pub async fn connection() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (Box::new(l4::stream::Stream::from(near.unwrap())), far.unwrap().0)
    }

    /// Until the runtime has seen what the other end did.
    async fn settle() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fn count(idle: &Idle) -> usize {
        idle.waiting.lock().unwrap().count
    }

    #[tokio::test]
    async fn the_one_used_last_is_used_next() {
        let idle = idle(8);
        let ((one, _far1), (two, _far2)) = (connection().await, connection().await);
        let ids = [one.id(), two.id()];
        idle.put(1, one, None);
        idle.put(1, two, None);
        assert!(idle.take(2).is_none(), "another peer's");
        assert_eq!(idle.take(1).unwrap().id(), ids[1]);
        assert_eq!(idle.take(1).unwrap().id(), ids[0]);
        assert!(idle.take(1).is_none());
    }

    #[tokio::test]
    async fn a_closed_or_talking_one_is_not_used_again() {
        let idle = idle(8);
        let ((closed, far1), (talking, mut far2), (good, _far3)) =
            (connection().await, connection().await, connection().await);
        let id = good.id();
        for stream in [good, closed, talking] {
            idle.put(1, stream, None);
        }
        drop(far1);
        far2.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.unwrap();
        settle().await;
        assert_eq!(idle.take(1).unwrap().id(), id);
        assert!(idle.take(1).is_none());
    }

    /// Nor by a task that has used up its turn, which reads nothing before the next.
    #[tokio::test]
    async fn a_busy_task_sees_what_is_closed() {
        let idle = idle(8);
        let (closed, far) = connection().await;
        idle.put(1, closed, None);
        drop(far);
        settle().await;
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::coop::consume_budget().await;
        }
        assert!(idle.take(1).is_none());
    }

    #[tokio::test]
    async fn too_many_and_too_old_ones_go() {
        let idle = idle(2);
        let mut far = Vec::new();
        for peer in [1, 2, 3] {
            let (near, other) = connection().await;
            idle.put(peer, near, Some(Duration::from_secs(if peer == 2 { 1 } else { 60 })));
            far.push(other);
        }
        assert!(idle.take(1).is_none(), "the oldest of three");
        assert!(idle.waiting.lock().unwrap().sweep(&idle.is_wanted));
        assert!(idle.take(2).is_none(), "out of time");
        assert!(idle.take(3).is_some());
        assert_eq!(count(&idle), 0);
    }

    /// What nobody takes is closed all the same, so that no socket lingers half-closed.
    #[tokio::test]
    async fn the_sweeper_closes_what_hosts_have_closed() {
        let idle = idle(8);
        let ((closed, far), (good, _far)) = (connection().await, connection().await);
        idle.put(1, closed, None);
        idle.put(2, good, None);
        drop(far);
        for _ in 0..100 {
            if count(&idle) == 1 {
                break;
            }
            settle().await;
        }
        assert_eq!(count(&idle), 1);
        assert!(idle.take(2).is_some());
    }

    #[tokio::test]
    async fn what_nobody_wants_any_more_goes() {
        let idle = Idle::new(8, Box::new(|peer| peer != 1));
        let ((one, mut far), (two, _far)) = (connection().await, connection().await);
        idle.put(1, one, None);
        idle.put(2, two, None);
        let closed = tokio::io::AsyncReadExt::read(&mut far, &mut [0]).await;
        assert_eq!(closed.unwrap(), 0);
        assert!(idle.take(1).is_none() && idle.take(2).is_some());
    }

    #[tokio::test]
    async fn none_is_kept_where_none_may_be() {
        let idle = idle(0);
        let (near, _far) = connection().await;
        idle.put(1, near, None);
        assert!(idle.take(1).is_none());
    }
}
