//! What the layers that we put over a connection have in common: bytes that are kept back until they can be sent
//! together with those that follow, and all that is passed on to the connection as it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pingora::protocols::Stream;
use tokio::io::AsyncWrite;

/// Bytes that were taken over and not handed down yet.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    /// How many of them were handed down.
    taken: usize,
}

impl Kept {
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_sub(self.taken)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn took(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(count);
        if self.is_empty() {
            // Given back, not cleared: most connections are idle most of the time.
            *self = Self::default();
        }
    }

    /// Hands down what is kept, with `more` behind it in one write if the connection takes it, and says how many bytes
    /// of `more` were taken: none only if there are none, or nothing was kept.
    pub fn poll_join(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        more: &[u8],
    ) -> Poll<io::Result<usize>> {
        while !self.is_empty() {
            let kept = self.bytes.get(self.taken..).unwrap_or_default();
            let length = kept.len();
            let below = Pin::new(&mut *stream);
            let count = if more.is_empty() {
                ready!(below.poll_write(cx, kept))?
            } else {
                ready!(below.poll_write_vectored(cx, &[IoSlice::new(kept), IoSlice::new(more)]))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.took(count.min(length));
            if count > length {
                return Poll::Ready(Ok(count - length));
            }
        }
        Poll::Ready(Ok(0))
    }
}

/// Passes on what a layer leaves as it is. The layer has `below(&self) -> &Stream` and
/// `below_mut(&mut self) -> &mut Stream`.
macro_rules! pass_on {
    ($layer:ty) => {
        #[async_trait::async_trait]
        impl pingora::protocols::Shutdown for $layer {
            async fn shutdown(&mut self) {
                self.below_mut().shutdown().await;
            }
        }

        #[async_trait::async_trait]
        impl pingora::protocols::Peek for $layer {
            async fn try_peek(&mut self, buf: &mut [u8]) -> std::io::Result<bool> {
                self.below_mut().try_peek(buf).await
            }
        }

        impl pingora::protocols::UniqueID for $layer {
            fn id(&self) -> pingora::protocols::UniqueIDType {
                self.below().id()
            }
        }

        impl pingora::protocols::Ssl for $layer {
            fn get_ssl_digest(&self) -> Option<std::sync::Arc<pingora::protocols::tls::SslDigest>> {
                self.below().get_ssl_digest()
            }

            fn selected_alpn_proto(&self) -> Option<pingora::protocols::ALPN> {
                self.below().selected_alpn_proto()
            }
        }

        impl pingora::protocols::GetTimingDigest for $layer {
            fn get_timing_digest(&self) -> Vec<Option<pingora::protocols::TimingDigest>> {
                self.below().get_timing_digest()
            }

            fn get_read_pending_time(&self) -> std::time::Duration {
                self.below().get_read_pending_time()
            }

            fn get_write_pending_time(&self) -> std::time::Duration {
                self.below().get_write_pending_time()
            }
        }

        impl pingora::protocols::GetProxyDigest for $layer {
            fn get_proxy_digest(
                &self,
            ) -> Option<std::sync::Arc<pingora::protocols::raw_connect::ProxyDigest>> {
                self.below().get_proxy_digest()
            }

            fn set_proxy_digest(&mut self, digest: pingora::protocols::raw_connect::ProxyDigest) {
                self.below_mut().set_proxy_digest(digest);
            }
        }

        impl pingora::protocols::GetSocketDigest for $layer {
            fn get_socket_digest(&self) -> Option<std::sync::Arc<pingora::protocols::SocketDigest>> {
                self.below().get_socket_digest()
            }

            fn set_socket_digest(&mut self, digest: pingora::protocols::SocketDigest) {
                self.below_mut().set_socket_digest(digest);
            }
        }
    };
}
pub(super) use pass_on;
