//! `a2a-errata probe` over TLS and HTTP/2: whom it trusts, what it says where it does not, which HTTP it speaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use a2a_errata::demo::{CREDENTIAL, ModelHost, OWN_TASK};
use bytes::Bytes;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Runs this on a runtime of its own, until the test's process ends; it tells its address.
fn serve<F>(host: impl FnOnce(std::sync::mpsc::Sender<SocketAddr>) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()>,
{
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(host(tell));
    });
    told.recv().unwrap()
}

fn model() -> SocketAddr {
    serve(async |tell| {
        let host = ModelHost::start(None).await.unwrap();
        tell.send(host.address()).unwrap();
        std::future::pending::<()>().await;
    })
}

/// The same host behind HTTP/2 without TLS, which understands nothing else.
fn model_over_http2() -> SocketAddr {
    let host = model();
    serve(async move |tell| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                // What speaks HTTP/1 gets no further.
                let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                while let Some(Ok((request, answer))) = connection.accept().await {
                    tokio::spawn(relay(host, request, answer));
                }
            });
        }
    })
}

async fn relay(
    host: SocketAddr,
    request: http::Request<h2::RecvStream>,
    mut answer: h2::server::SendResponse<Bytes>,
) {
    use std::fmt::Write as _;
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(piece)) = incoming.data().await {
        body.extend_from_slice(&piece);
        incoming.flow_control().release_capacity(piece.len()).unwrap();
    }
    let mut text =
        format!("{} {} HTTP/1.1\r\nhost: {host}\r\n", head.method, head.uri.path_and_query().unwrap());
    for (name, value) in head.headers.iter().filter(|(name, _)| *name != "content-length") {
        write!(text, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
    }
    write!(text, "connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    stream.write_all(&[text.as_bytes(), &body].concat()).await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.unwrap();
    let said = String::from_utf8(said).unwrap();
    let (lines, body) = said.split_once("\r\n\r\n").unwrap();
    let mut lines = lines.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut response = http::Response::builder().status(status.parse::<u16>().unwrap());
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        response = response.header(name, value);
    }
    let mut send = answer.send_response(response.body(()).unwrap(), false).unwrap();
    // The other side may have enough.
    let _ = send.send_data(Bytes::copy_from_slice(body.as_bytes()), true);
}

/// A certificate with its key.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Identity {
    fn of(name: &str, until: i32) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    /// As `openssl req -x509` makes them.
    fn of_authority() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    fn file(&self, directory: &Path) -> PathBuf {
        let path = directory.join("ca.pem");
        std::fs::write(&path, self.certificate.pem()).unwrap();
        path
    }
}

/// TLS in front of a host: what is inside it passes as it is.
fn over_tls(identity: &Identity, protocol: &str, host: SocketAddr) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(identity.key.serialize_der()).unwrap();
    let chain = vec![identity.certificate.der().clone()];
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || {
                let mut inside = TcpStream::connect(host).unwrap();
                for socket in [&socket, &inside] {
                    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                }
                let mut outside = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                while pass(&mut outside, &mut inside) && pass(&mut inside, &mut outside) {}
            });
        }
    });
    address
}

/// Whether it goes on.
fn pass(from: &mut impl Read, to: &mut impl Write) -> bool {
    let mut buffer = [0; 16384];
    match from.read(&mut buffer) {
        Ok(0) => false,
        Ok(number) => to.write_all(&buffer[..number]).and_then(|()| to.flush()).is_ok(),
        Err(why) => matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn probe(url: &str, more: &[&str]) -> Output {
    let usual = ["probe", url, "--bearer", CREDENTIAL.strip_prefix("Bearer ").unwrap(), "--task", OWN_TASK];
    Command::new(env!("CARGO_BIN_EXE_a2a-errata"))
        .args(usual)
        .args(["--rps", "1000", "--oversize", "1100000"])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn passes(output: &Output) {
    let (table, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{table}{told}");
    assert!(table.contains(" passed, 0 failed, "), "{table}");
}

#[test]
fn a_certificate_is_trusted_by_ca_or_by_nobody_who_looks() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::of("127.0.0.1", 2090);
    let ca = identity.file(directory.path());
    let url = format!("https://{}", over_tls(&identity, "http/1.1", model()));
    passes(&probe(&url, &["--ca", ca.to_str().unwrap()]));
    passes(&probe(&url, &["--insecure"]));
}

/// A server that has no patience with what is no HTTP.
fn plain() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 2048]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    address
}

/// One line that says what is wrong and what would be right, without the library's own words.
#[test]
fn trouble_with_tls_is_told_in_plain_words() {
    let directory = tempfile::tempdir().unwrap();
    let good = Identity::of("127.0.0.1", 2090);
    let old = Identity::of("127.0.0.1", 2021);
    let other = Identity::of("elsewhere.example", 2090);
    let host = model();
    let file = |identity: &Identity, name: &str| {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).unwrap();
        identity.file(&place).display().to_string()
    };
    let (good_ca, old_ca, other_ca) = (file(&good, "good"), file(&old, "old"), file(&other, "other"));
    let empty = directory.path().join("empty").display().to_string();
    std::fs::write(&empty, "").unwrap();
    let over =
        |identity: &Identity, protocol: &str| format!("https://{}", over_tls(identity, protocol, host));
    let trust = "--ca FILE trusts who signed it, --insecure trusts anybody";
    let blind = "; --insecure takes it all the same";
    let report = |url: String| {
        let told = Command::new(env!("CARGO_BIN_EXE_a2a-errata")).args(["report", &url]).output().unwrap();
        (told.status.code(), text(&told.stderr).split_once(": TLS: ").unwrap().1.to_owned())
    };
    let untrusted = "no authority that is trusted here has signed the host's certificate\n";
    assert_eq!(report(over(&good, "http/1.1")), (Some(2), untrusted.to_owned()));
    let no_tls = "what answers there speaks no TLS; is it http://?\n";
    assert_eq!(report(format!("https://{}", plain())), (Some(2), no_tls.to_owned()));
    let authority = Identity::of_authority();
    let authority_ca = file(&authority, "authority");
    for (url, more, why, what) in [
        (over(&authority, "http/1.1"), &["--ca", &authority_ca][..], "an authority's own certificate", blind),
        (over(&good, "http/1.1"), &[], "no authority that is trusted here has signed", trust),
        (
            over(&good, "http/1.1"),
            &["--ca", &other_ca],
            "no authority that is trusted here has signed",
            trust,
        ),
        (over(&old, "http/1.1"), &["--ca", &old_ca], "certificate has expired", blind),
        (over(&other, "http/1.1"), &["--ca", &other_ca], "certificate is for another name", blind),
        (over(&good, "spdy/1"), &["--ca", &good_ca], "speaks no version of HTTP that was offered", ""),
        (format!("https://{}", plain()), &[], "speaks no TLS; is it http://?", ""),
        (over(&good, "http/1.1"), &["--ca", "/no/such/file"], "--ca /no/such/file: No such file", "PEM file"),
        (over(&good, "http/1.1"), &["--ca", &empty], "there is no certificate in it", "PEM file"),
        (over(&good, "http/1.1"), &["--ca", "/dev/full"], "it is larger than 16 MiB", "PEM file"),
        (over(&good, "http/1.1"), &["--ca", "/"], "--ca /: Is a directory", "PEM file"),
    ] {
        let output = probe(&url, more);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{url}: {told}{}", text(&output.stdout));
        assert!(told.contains(why) && told.contains(what), "{why}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        for word in ["InvalidCertificate", "AlertReceived", "InvalidMessage", "UnknownIssuer", "Other("] {
            assert!(!told.contains(word), "{told}");
        }
    }
}

#[test]
fn a_host_with_http_2_only_is_probed_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::of("127.0.0.1", 2090);
    let ca = identity.file(directory.path());
    let ca = ca.to_str().unwrap();
    let plain = model_over_http2();
    let tls = format!("https://{}", over_tls(&identity, "h2", plain));
    passes(&probe(&tls, &["--ca", ca]));
    passes(&probe(&tls, &["--ca", ca, "--http2"]));
    let plain = format!("http://{plain}");
    passes(&probe(&plain, &["--http2"]));
    // Without TLS nobody says what is spoken.
    let output = probe(&plain, &[]);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("--http2"), "{told}");
}
