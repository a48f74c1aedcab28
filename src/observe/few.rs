//! The admin listener's clients: few at a time, and none for long. Whoever reaches the pages must not be able to take the
//! files and the memory that the proxy needs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::apps::ServerApp;
use pingora_core::protocols::Stream;
use pingora_core::server::ShutdownWatch;
use tokio::sync::Semaphore;

/// Connections at a time: some Prometheus servers, probes, and people.
const CONNECTIONS: usize = 64;
/// From one request's end, or the connection's begin, to the end of the next answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An app for few clients.
pub struct Few<A> {
    app: Arc<A>,
    room: Semaphore,
    patience: Duration,
}

impl<A> Few<A> {
    #[must_use]
    pub fn new(app: A) -> Self {
        Self { app: Arc::new(app), room: Semaphore::new(CONNECTIONS), patience: PATIENCE }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Few<A> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let Ok(_place) = self.room.try_acquire() else {
            tracing::debug!(most = CONNECTIONS, "the admin listener has no room for another connection");
            return None;
        };
        tokio::time::timeout(self.patience, self.app.process_new(stream, shutdown)).await.ok().flatten()
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    struct Never;

    #[async_trait]
    impl ServerApp for Never {
        async fn process_new(self: &Arc<Self>, _: Stream, _: &ShutdownWatch) -> Option<Stream> {
            pending().await
        }
    }

    fn stream() -> Stream {
        Box::new(tokio::io::duplex(64).0)
    }

    #[tokio::test]
    async fn few_are_let_in_and_none_stays_for_long() {
        let (_tell, ending) = tokio::sync::watch::channel(false);
        let few = Arc::new(Few { patience: Duration::from_millis(200), ..Few::new(Never) });
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (few, ending) = (few.clone(), ending.clone());
                tokio::spawn(async move { few.process_new(stream(), &ending).await.is_none() })
            })
            .collect();
        while few.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(few.process_new(stream(), &ending).await.is_none());
        for client in clients {
            assert!(client.await.unwrap());
        }
        assert_eq!(few.room.available_permits(), CONNECTIONS);
    }
}
