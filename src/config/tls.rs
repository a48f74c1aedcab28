//! Reads the certificates and keys that the configuration names, and says what is wrong with one: before anything
//! uses it, and in the words of the configuration.

use std::fmt;
use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::layers::Places;
use super::model::{Model, UpstreamTls};
use super::problem::Problem;

/// A certificate with its chain and its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// DER, the leaf first.
    pub chain: Vec<Vec<u8>>,
    /// DER.
    pub key: Vec<u8>,
}

/// A key is nobody's to see.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

/// What the files of one upstream hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// DER; empty: what the system trusts.
    pub ca: Vec<Vec<u8>>,
    pub client: Option<Identity>,
}

/// Reads every file that the model names.
pub(super) fn read(model: &mut Model, places: &Places) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (n, host) in model.hosts.iter_mut().enumerate() {
        let list = format!("hosts[{n}].upstreams");
        for (i, upstream) in host.upstreams.iter_mut().enumerate() {
            let Some(tls) = &mut upstream.tls else { continue };
            match files(tls) {
                Ok(files) => tls.files = files,
                Err((member, value, says)) => {
                    let key = format!("{list}[{i}].tls.{member}");
                    let value = toml_edit::Value::from(value).to_string();
                    problems.push(Problem::new(places.near(&list), key, says).with_value(&value));
                }
            }
        }
    }
    problems
}

/// Member, value and what is wrong with it.
type Fault = (&'static str, String, String);

fn files(tls: &UpstreamTls) -> Result<Files, Fault> {
    let ca = if tls.ca.is_empty() {
        Vec::new()
    } else {
        certificates(&tls.ca).map_err(|says| ("ca", tls.ca.clone(), says))?
    };
    let client = match (tls.client_cert.as_str(), tls.client_key.as_str()) {
        ("", "") => None,
        ("", _) => {
            return Err((
                "client_cert",
                String::new(),
                "is missing beside client_key; write the certificate's path".into(),
            ));
        }
        (_, "") => {
            return Err((
                "client_key",
                String::new(),
                "is missing beside client_cert; write the key's path".into(),
            ));
        }
        (cert, key) => {
            let chain = certificates(cert).map_err(|says| ("client_cert", cert.to_owned(), says))?;
            let key_der = private_key(key).map_err(|says| ("client_key", key.to_owned(), says))?;
            Some(identity(chain, &key_der).map_err(|says| ("client_key", key.to_owned(), says))?)
        }
    };
    Ok(Files { ca, client })
}

fn contents(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(Path::new(path))
        .map_err(|error| format!("cannot be read ({error}); write the path of a PEM file"))
}

/// Every certificate of a PEM file, none of them outside its time.
fn certificates(path: &str) -> Result<Vec<Vec<u8>>, String> {
    let pem = contents(path)?;
    let mut all = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let der = certificate.map_err(|error| format!("is no PEM file ({error})"))?;
        let (_, read) =
            X509Certificate::from_der(&der).map_err(|_| "holds a certificate that cannot be read")?;
        let validity = read.validity();
        if !validity.is_valid() {
            let (from, to) = (validity.not_before, validity.not_after);
            return Err(format!("holds a certificate that is valid from {from} to {to} only; renew it"));
        }
        all.push(der.to_vec());
    }
    if all.is_empty() {
        Err("holds no certificate; write the path of a PEM file with one".into())
    } else {
        Ok(all)
    }
}

fn private_key(path: &str) -> Result<PrivateKeyDer<'static>, String> {
    let pem = contents(path)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| "holds no private key; write the path of a PEM file with one, not encrypted".into())
}

/// A chain and the key that belongs to its leaf.
fn identity(chain: Vec<Vec<u8>>, key: &PrivateKeyDer<'static>) -> Result<Identity, String> {
    let der = key.secret_der().to_vec();
    let signing = rustls::crypto::ring::sign::any_supported_type(key)
        .map_err(|_| "is of a kind that is not supported; use RSA, ECDSA P-256 or P-384, or Ed25519")?;
    let certified =
        CertifiedKey::new(chain.iter().map(|der| CertificateDer::from(der.clone())).collect(), signing);
    certified
        .keys_match()
        .map_err(|_| "does not belong to the certificate; write the key that it was made with")?;
    Ok(Identity { chain, key: der })
}
