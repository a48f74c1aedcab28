//! Hosts that are spoken to over TLS (U-3): whom the proxy believes, what it shows of itself, and what is said about
//! files that are wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use binary::{Running, ask, free_port, run, start, text};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use support::{CALL, Connection, ERROR, eventually, post, sized};

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self, name: &str, until: i32) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// What a host saw of a connection: the name asked for, the protocol, and whether it was shown a certificate.
type Seen = Arc<Mutex<Vec<(Option<String>, Option<String>, bool)>>>;

/// A host that answers every call with the same error.
struct Host {
    address: SocketAddr,
    seen: Seen,
}

impl Host {
    /// `client` are those whose certificates it asks for.
    fn start(authority: &Authority, name: &str, client: Option<&Authority>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, key) = authority.sign(name, 2090);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let mut roots = RootCertStore::empty();
                roots.add(client.certificate.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let tell = seen.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, tell) = (config.clone(), tell.clone());
                thread::spawn(move || {
                    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
                    let mut read = Vec::new();
                    let mut known = false;
                    let mut buffer = [0; 4096];
                    while let Ok(number @ 1..) = stream.read(&mut buffer) {
                        if !known {
                            known = true;
                            let protocol = stream.conn.alpn_protocol().map(text);
                            let name = stream.conn.server_name().map(ToOwned::to_owned);
                            let shown = stream.conn.peer_certificates().is_some();
                            tell.lock().unwrap().push((name, protocol, shown));
                        }
                        read.extend_from_slice(&buffer[..number]);
                        if read.ends_with(CALL.as_bytes()) {
                            read.clear();
                            stream.write_all(sized(200, ERROR).as_bytes()).unwrap();
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }
}

struct Stage {
    directory: tempfile::TempDir,
    listen: u16,
    admin: u16,
}

impl Stage {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), listen: free_port(), admin: free_port() }
    }

    fn put(&self, name: &str, contents: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, contents).unwrap();
        path.display().to_string()
    }

    /// One host at this address, with this `tls`.
    fn write(&self, address: SocketAddr, tls: &str) -> PathBuf {
        let (listen, admin) = (self.listen, self.admin);
        let file = format!(
            "[listen]\naddress = \"127.0.0.1:{listen}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n[[hosts]]\n\
             upstreams = [{{ address = \"{address}\", tls = {{ {tls} }} }}]\n[[hosts.interfaces]]\npath = \"/a2a\"\n"
        );
        PathBuf::from(self.put("a.toml", &file))
    }

    fn start(&self, address: SocketAddr, tls: &str) -> Running {
        let file = self.write(address, tls);
        let process = start(&["run", "--config", file.to_str().unwrap()], &[]);
        assert!(ask(self.admin, "GET /livez").starts_with("HTTP/1.1 200 "));
        // Each listener has a thread of its own.
        let listens = || TcpStream::connect(("127.0.0.1", self.listen)).is_ok();
        eventually(listens, || "the proxy does not listen".into());
        process
    }

    fn call(client: &mut Connection) -> (u16, String) {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        assert_eq!(answer.json()["id"], 7, "{answer:?}");
        assert!(!answer.text().contains("acme"), "{answer:?}");
        (answer.status(), answer.text())
    }

    fn client(&self) -> Connection {
        Connection::connect(([127, 0, 0, 1], self.listen).into())
    }
}

/// A name of its own, a private authority, one connection for many calls; nothing of the proxy's own is negotiated.
#[test]
fn u3_a_host_over_tls_is_believed_by_its_authority_and_name() {
    let authority = Authority::new();
    let host = Host::start(&authority, "agents.internal", None);
    let stage = Stage::new();
    let ca = stage.put("ca.pem", &authority.certificate.pem());
    let _proxy = stage.start(host.address, &format!("sni = \"agents.internal\", ca = \"{ca}\""));
    let mut client = stage.client();
    for _ in 0..3 {
        assert_eq!(Stage::call(&mut client).0, 200);
    }
    let seen = host.seen.lock().unwrap().clone();
    assert_eq!(seen, [(Some("agents.internal".into()), Some("http/1.1".into()), false)]);
}

#[test]
fn u3_a_host_that_is_not_to_be_believed_is_a_502() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let host = Host::start(&authority, "agents.internal", None);
    for (trusted, sni) in [(&stranger, "agents.internal"), (&authority, "other.internal"), (&authority, "")] {
        let stage = Stage::new();
        let ca = stage.put("ca.pem", &trusted.certificate.pem());
        let _proxy = stage.start(host.address, &format!("sni = \"{sni}\", ca = \"{ca}\""));
        let (status, says) = Stage::call(&mut stage.client());
        assert_eq!(status, 502, "{sni}: {says}");
        let metrics = ask(stage.admin, "GET /metrics");
        assert!(metrics.contains(r#"upstream_failures_total{host="legacy",kind="connect"} 1"#), "{metrics}");
    }
    assert_eq!(host.seen.lock().unwrap().len(), 0, "nothing was sent to it");

    let stage = Stage::new();
    let ca = stage.put("ca.pem", &stranger.certificate.pem());
    let proxy = stage.start(host.address, &format!("ca = \"{ca}\", verify = false"));
    assert_eq!(Stage::call(&mut stage.client()).0, 200);
    assert!(proxy.log().contains("is believed, since tls.verify = false"));
}

#[test]
fn u3_the_proxy_shows_its_certificate_to_a_host_that_asks() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let host = Host::start(&authority, "agents.internal", Some(&clients));
    let stage = Stage::new();
    let ca = stage.put("ca.pem", &authority.certificate.pem());
    let (certificate, key) = clients.sign("proxy.internal", 2090);
    let (cert, key) = (stage.put("p.crt", &certificate.pem()), stage.put("p.key", &key.serialize_pem()));
    let trust = format!("sni = \"agents.internal\", ca = \"{ca}\"");
    let proxy = stage.start(host.address, &trust);
    assert_eq!(Stage::call(&mut stage.client()).0, 502);

    // What the files hold, and which are named, is read again by a reload.
    stage.write(host.address, &format!("{trust}, client_cert = \"{cert}\", client_key = \"{key}\""));
    reload(&stage, &proxy, 1);
    assert_eq!(Stage::call(&mut stage.client()).0, 200);
    assert!(host.seen.lock().unwrap().iter().all(|(_, _, shown)| *shown));
    stage.put("ca.pem", &Authority::new().certificate.pem());
    reload(&stage, &proxy, 2);
    assert_eq!(Stage::call(&mut stage.client()).0, 502, "a connection that was trusted before is not used");
}

/// A changed file is in effect by itself, and no key of the configuration is read again for it.
#[test]
fn u3_a_hosts_files_are_taken_anew_when_they_change() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let host = Host::start(&authority, "agents.internal", Some(&clients));
    let stage = Stage::new();
    let stranger = Authority::new();
    let ca = stage.put("ca.pem", &authority.certificate.pem());
    let put = |(certificate, key): (rcgen::Certificate, KeyPair)| {
        (stage.put("p.crt", &certificate.pem()), stage.put("p.key", &key.serialize_pem()))
    };
    let (cert, key) = put(stranger.sign("proxy.internal", 2090));
    let tls =
        format!("sni = \"agents.internal\", ca = \"{ca}\", client_cert = \"{cert}\", client_key = \"{key}\"");
    let proxy = stage.start(host.address, &tls);
    assert_eq!(Stage::call(&mut stage.client()).0, 502);
    let metric = |series: &str| {
        let page = ask(stage.admin, "GET /metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("a2a_errata_{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{page}")).to_owned()
    };
    let taken = |count: &str| {
        let says = || metric("certificate_reloads_total{use=\"upstream\"}");
        eventually(|| says() == count, says);
    };
    put(clients.sign("proxy.internal", 2090));
    taken("1");
    assert_eq!(Stage::call(&mut stage.client()).0, 200);
    let expiry = "certificate_expiry_timestamp_seconds{host=\"legacy\",key=\"client_cert\",use=\"upstream\"}";
    assert_eq!(metric(expiry), "3786912000", "2090-01-01");

    // Half of a pair is not taken, and told.
    let (other, _) = clients.sign("proxy.internal", 2091);
    stage.put("p.crt", &other.pem());
    let refused = || metric("certificates_refused{use=\"upstream\"}");
    eventually(|| refused() == "1", refused);
    assert_eq!(metric("certificate_failures_total{cause=\"mismatch\",use=\"upstream\"}"), "1");
    assert_eq!(Stage::call(&mut stage.client()).0, 200);
    put(clients.sign("proxy.internal", 2090));
    taken("2");
    eventually(|| refused() == "0", refused);

    stage.put("ca.pem", &stranger.certificate.pem());
    taken("3");
    assert_eq!(Stage::call(&mut stage.client()).0, 502, "a connection that was trusted before is not used");
    assert_eq!(metric("config_reloads_total{result=\"ok\"}"), "0");
    let log = proxy.log();
    assert!(log.contains("hosts[0].upstreams[0].tls.client_key") && !log.contains("PRIVATE"), "{log}");
}

fn reload(stage: &Stage, proxy: &Running, number: usize) {
    assert!(Command::new("kill").args(["-HUP", &proxy.0.id().to_string()]).status().unwrap().success());
    let count = format!("a2a_errata_config_reloads_total{{result=\"ok\"}} {number}\n");
    eventually(|| ask(stage.admin, "GET /metrics").contains(&count), || ask(stage.admin, "GET /metrics"));
}

#[test]
fn u1_files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let stage = Stage::new();
    let put = |name: &str, (certificate, key): (rcgen::Certificate, KeyPair)| {
        (
            stage.put(&format!("{name}.crt"), &certificate.pem()),
            stage.put(&format!("{name}.key"), &key.serialize_pem()),
        )
    };
    let (good, other) = (put("good", authority.sign("a", 2090)), put("other", authority.sign("b", 2090)));
    let old = put("old", authority.sign("c", 2021));
    let noise = stage.put("noise", "no PEM at all\n");
    let broken = stage.put("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let pair = |cert: &str, key: &str| format!("client_cert = \"{cert}\", client_key = \"{key}\"");
    for (tls, key, says) in [
        ("ca = \"/nowhere/ca.pem\"".to_owned(), "ca", "cannot be read"),
        (format!("ca = \"{noise}\""), "ca", "holds no certificate"),
        (format!("ca = \"{broken}\""), "ca", "holds a certificate that cannot be read"),
        (format!("ca = \"{}\"", old.0), "ca", "only; renew it"),
        (pair(&old.0, &old.1), "client_cert", "only; renew it"),
        (pair(&good.0, &other.1), "client_key", "does not belong to the certificate"),
        (pair(&good.0, &noise), "client_key", "holds no private key"),
        (pair(&good.0, ""), "client_key", "is missing beside client_cert"),
        (pair("", &good.1), "client_cert", "is missing beside client_key"),
    ] {
        let file = stage.write(address, &tls);
        refused(&file, &format!("{}:6:13: hosts[0].upstreams[0].tls.{key} = ", file.display()), says);
    }
    for (tls, says) in [
        ("sni = \"a b\"", "`tls.sni` is not a name of a host"),
        ("verify = 1", "`tls.verify` must be true or false"),
        (
            "cert = \"x\"",
            "unknown key `tls.cert`; known here are sni, ca, client_cert, client_key and verify",
        ),
    ] {
        let file = stage.write(address, tls);
        refused(&file, "hosts[0].upstreams[0] = ", says);
    }
    let file = stage.write(address, &pair(&good.0, &good.1));
    let checked = run(&["check", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    // What is printed can be used again.
    let again = stage.put("again.toml", &text(&checked.stdout));
    assert_eq!(run(&["check", "--config", &again], &[]).status.code(), Some(0));
}

#[track_caller]
fn refused(file: &Path, place: &str, says: &str) {
    let output = run(&["check", "--config", file.to_str().unwrap()], &[]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(place) && told.contains(says), "{place} … {says}\nis not in\n{told}");
}
