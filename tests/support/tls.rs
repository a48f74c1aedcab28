//! What the tests of TLS share: somebody who signs certificates, and clients of HTTP/1 and HTTP/2 over TLS.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use tokio_rustls::TlsConnector;

use crate::support::{Connection, PATIENCE};

/// Somebody who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub certificate: rcgen::Certificate,
}

/// A certificate and its key, as PEM and as DER.
#[derive(Clone)]
pub struct Signed {
    pub cert: String,
    pub key: String,
    pub der: Vec<u8>,
    pub key_der: Vec<u8>,
}

/// From and until the first of January of these years.
pub type Years = (i32, i32);
pub const VALID: Years = (2020, 2090);
pub const EXPIRED: Years = (2020, 2021);
pub const NOT_YET: Years = (2089, 2090);

impl Authority {
    pub fn new() -> Self {
        Self::of(VALID)
    }

    pub fn of(years: Years) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn sign(&self, names: &[&str]) -> Signed {
        self.sign_for(names, VALID)
    }

    pub fn sign_for(&self, names: &[&str], years: Years) -> Signed {
        self.sign_with(names, years, &PKCS_ECDSA_P256_SHA256)
    }

    /// Few clients that offer no Ed25519 can be spoken to with it.
    pub fn sign_ed25519(&self, names: &[&str]) -> Signed {
        self.sign_with(names, VALID, &PKCS_ED25519)
    }

    /// Until so many seconds from now.
    pub fn sign_for_seconds(&self, names: &[&str], seconds: u64) -> Signed {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let until = rcgen::date_time_ymd(1970, 1, 1) + (now + Duration::from_secs(seconds));
        self.sign_params(names, &PKCS_ECDSA_P256_SHA256, |params| params.not_after = until)
    }

    fn sign_with(&self, names: &[&str], years: Years, kind: &'static rcgen::SignatureAlgorithm) -> Signed {
        self.sign_params(names, kind, |params| {
            params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
            params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        })
    }

    fn sign_params(
        &self,
        names: &[&str],
        kind: &'static rcgen::SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Signed {
        let key = KeyPair::generate_for(kind).unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed {
            cert: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        }
    }
}

impl Signed {
    /// What a host of HTTP/1 needs to show it.
    pub fn host(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(self.key_der.clone()).unwrap();
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![CertificateDer::from(self.der.clone())], key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// A client that trusts an authority.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// The name it asks for.
    pub name: String,
}

impl TlsClient {
    /// `protocols` are offered (ALPN).
    pub fn new(authority: &Authority, name: &str, protocols: &[&str]) -> Self {
        Self::with(authority, name, protocols, None)
    }

    /// Shows this certificate.
    pub fn with(authority: &Authority, name: &str, protocols: &[&str], shown: Option<&Signed>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(signed) => {
                let key = PrivateKeyDer::try_from(signed.key_der.clone()).unwrap();
                builder.with_client_auth_cert(vec![CertificateDer::from(signed.der.clone())], key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self { config: Arc::new(config), name: name.to_owned() }
    }

    fn server_name(&self) -> ServerName<'static> {
        ServerName::try_from(self.name.clone()).unwrap()
    }

    /// A connection for raw HTTP/1, or why there is none.
    pub fn try_connect(&self, address: SocketAddr) -> Result<Connection, String> {
        let tls = ClientConnection::new(self.config.clone(), self.server_name()).unwrap();
        Connection::over_tls(address, tls).map_err(|error| error.to_string())
    }

    #[track_caller]
    pub fn connect(&self, address: SocketAddr) -> Connection {
        self.try_connect(address).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The leaf that the other side shows, in DER.
    #[track_caller]
    pub fn shown_by(&self, address: SocketAddr) -> Vec<u8> {
        let client = self.connect(address);
        client.tls().peer_certificates().unwrap()[0].to_vec()
    }

    /// A connection of HTTP/2, to be driven by its second half, or why there is none.
    pub async fn http_2(
        &self,
        address: SocketAddr,
    ) -> Result<(Http2, impl Future<Output = ()> + use<>), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let socket = tokio::net::TcpStream::connect(address).await.map_err(|error| told(&error))?;
        let connector = TlsConnector::from(self.config.clone());
        let stream = connector.connect(self.server_name(), socket).await.map_err(|error| told(&error))?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err("HTTP/2 was not agreed on".into());
        }
        let (send, connection) = h2::client::handshake(stream).await.map_err(|error| told(&error))?;
        let driver = async move {
            let _ = connection.await;
        };
        Ok((Http2 { send }, driver))
    }
}

/// A connection of HTTP/2.
#[derive(Clone)]
pub struct Http2 {
    send: h2::client::SendRequest<Bytes>,
}

/// An answer under way.
pub struct Answer2 {
    pub status: u16,
    pub headers: http::HeaderMap,
    body: h2::RecvStream,
}

impl Http2 {
    /// A connection with prior knowledge, to be driven by its second half, or why there is none.
    pub async fn in_the_clear(
        address: SocketAddr,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), String> {
        let socket = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (send, connection) = h2::client::handshake(socket).await.map_err(|error| error.to_string())?;
        let driver = async move {
            let _ = connection.await;
        };
        Ok((Self { send }, driver))
    }

    /// Posts this and reads the whole answer, or says how it broke off.
    pub async fn whole(&self, path: &str, body: impl Into<Bytes>) -> Result<String, h2::Error> {
        let mut answer = self.post(path, body.into()).await?;
        Ok(String::from_utf8_lossy(&answer.rest().await?).into_owned())
    }

    /// Posts this, in pieces as flow control lets it.
    pub async fn post(&self, path: &str, body: Bytes) -> Result<Answer2, h2::Error> {
        let request = http::Request::post(format!("https://h{path}"))
            .header("a2a-version", "1.0")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        let mut ready = self.send.clone().ready().await?;
        let (answer, mut stream) = ready.send_request(request, false)?;
        let mut rest = body;
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(room)) = room else { break };
            stream.send_data(rest.split_to(room.min(rest.len())), false)?;
        }
        stream.send_data(Bytes::new(), true)?;
        let answer = answer.await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Ok(Answer2 { status, headers, body: answer.into_body() })
    }

    /// The same and the whole answer, within the time that tests have.
    pub async fn call(&self, path: &str, body: impl Into<Bytes>) -> (Answer2, Vec<u8>) {
        let whole = async {
            let mut answer = self.post(path, body.into()).await.unwrap();
            let mut whole = Vec::new();
            while let Some(piece) = answer.piece().await {
                whole.extend_from_slice(&piece);
            }
            (answer, whole)
        };
        tokio::time::timeout(PATIENCE, whole).await.expect("no answer in time")
    }
}

impl Answer2 {
    /// What comes until the end, or how it broke off.
    pub async fn rest(&mut self) -> Result<Vec<u8>, h2::Error> {
        let mut rest = Vec::new();
        while let Some(piece) = self.body.data().await {
            let piece = piece?;
            let _ = self.body.flow_control().release_capacity(piece.len());
            rest.extend_from_slice(&piece);
        }
        Ok(rest)
    }

    /// The next piece of the body.
    pub async fn piece(&mut self) -> Option<Bytes> {
        let piece = self.body.data().await?.unwrap();
        let _ = self.body.flow_control().release_capacity(piece.len());
        Some(piece)
    }
}

/// Runs this on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_millis(10));
    done
}
