//! Reads the certificates and keys that the configuration names, and says what is wrong with one: before anything
//! uses it, and in the words of the configuration. What is read again while the proxy runs goes the same way.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

use super::files::Pass;
use super::layers::Places;
use super::model::{ListenTls, Model, UpstreamTls};
use super::problem::{Place, Problem};

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

impl Identity {
    /// The names of hosts that the leaf is for, in lower case, wildcards as they are written.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.chain.first().map(|leaf| names(leaf)).unwrap_or_default()
    }
}

/// What the files of one upstream hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// DER; empty: what the system trusts.
    pub ca: Vec<Vec<u8>>,
    pub client: Option<Identity>,
    /// What is taken although it is outside its time, or was left out because of that.
    pub notes: Vec<Fault>,
    print: u64,
}

/// What the files of the listener hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenFiles {
    /// The first is for every name that no other has.
    pub identities: Vec<Identity>,
    /// Who signs clients' certificates; empty: nobody is asked for one.
    pub client_ca: Vec<Vec<u8>>,
    /// As [`Files::notes`].
    pub notes: Vec<Fault>,
    print: u64,
}

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    Listen,
    Upstream { host: usize, upstream: usize },
}

impl Owner {
    /// Everything that has files, as metrics and logs say it.
    pub const USES: [&'static str; 2] = ["listen", "upstream"];

    /// One of [`Self::USES`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let [listen, upstream] = Self::USES;
        match self {
            Self::Listen => listen,
            Self::Upstream { .. } => upstream,
        }
    }
}

/// Why a file is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is not there, or not for the proxy to read.
    Unreadable,
    /// It holds no certificate or key that could be used.
    Unusable,
    /// A key that belongs to another certificate.
    Mismatch,
    Expired,
    NotYetValid,
    /// Something that has to stand beside it is not configured.
    Incomplete,
}

impl Cause {
    pub const ALL: [Self; 6] = [
        Self::Unreadable,
        Self::Unusable,
        Self::Mismatch,
        Self::Expired,
        Self::NotYetValid,
        Self::Incomplete,
    ];

    /// As metrics and logs say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Unusable => "unusable",
            Self::Mismatch => "mismatch",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Incomplete => "incomplete",
        }
    }
}

/// What is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key that names it: `listen.tls.cert`.
    pub key: String,
    /// The path as configured.
    pub path: String,
    pub cause: Cause,
    pub says: String,
}

/// How long the certificates that one key names are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    pub of: Owner,
    /// Empty for the listener.
    pub host: String,
    /// Below `tls`: `cert`, `certificates[0].cert`, `client_ca`, `ca`, `client_cert`.
    pub key: String,
    /// Unix time: the earliest end of all that the file holds.
    pub until: i64,
}

/// What some files hold now.
#[derive(Debug)]
pub struct Reading {
    pub of: Owner,
    /// Other contents have another one.
    pub print: u64,
    /// Everything that is wrong, or what to use from here on.
    pub found: Result<Found, Vec<Fault>>,
}

#[derive(Debug)]
pub enum Found {
    Listen(ListenFiles),
    Upstream(Files),
}

impl Model {
    /// Every owner of files whose contents are not those in effect, with what they hold now.
    #[must_use]
    pub fn changed_files(&self) -> Vec<Reading> {
        let (pass, known) = (Pass::new(), self.in_effect());
        let all = self.owners().filter_map(|of| {
            let (contents, print) = self.contents(of, &pass)?;
            (contents.print() != print).then(|| self.reading(of, &contents, &known))
        });
        all.collect()
    }

    /// What is said about files that are in effect.
    pub fn notes(&self) -> impl Iterator<Item = (Owner, &Fault)> {
        self.owners().flat_map(|of| {
            let notes = match of {
                Owner::Listen => Some(&self.listen.tls.files.notes),
                Owner::Upstream { .. } => self.upstream_tls(of).map(|tls| &tls.files.notes),
            };
            notes.into_iter().flatten().map(move |note| (of, note))
        })
    }

    /// Every certificate in effect.
    fn in_effect(&self) -> Known<'_> {
        let mut all = HashSet::new();
        for of in self.owners() {
            match of {
                Owner::Listen => {
                    let files = &self.listen.tls.files;
                    all.extend(files.identities.iter().flat_map(|identity| &identity.chain));
                    all.extend(&files.client_ca);
                }
                Owner::Upstream { .. } => {
                    let Some(files) = self.upstream_tls(of).map(|tls| &tls.files) else { continue };
                    all.extend(files.client.iter().flat_map(|identity| &identity.chain));
                    all.extend(&files.ca);
                }
            }
        }
        all.into_iter().map(Vec::as_slice).collect()
    }

    /// From here on the files hold this.
    pub fn take_files(&mut self, of: Owner, found: Found) {
        match (of, found) {
            (Owner::Listen, Found::Listen(files)) => self.listen.tls.files = files,
            (Owner::Upstream { host, upstream }, Found::Upstream(files)) => {
                let host = self.hosts.get_mut(host);
                let upstream = host.and_then(|host| host.upstreams.get_mut(upstream));
                if let Some(tls) = upstream.and_then(|upstream| upstream.tls.as_mut()) {
                    tls.files = files;
                }
            }
            (Owner::Listen, Found::Upstream(_)) | (Owner::Upstream { .. }, Found::Listen(_)) => {}
        }
    }

    /// How long everything in effect is valid.
    #[must_use]
    pub fn validities(&self) -> Vec<Validity> {
        let mut all = Vec::new();
        for of in self.owners() {
            let mut add = |key: String, chain: &[Vec<u8>]| {
                let host = match of {
                    Owner::Listen => String::new(),
                    Owner::Upstream { host, .. } => {
                        self.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default()
                    }
                };
                if let Some(until) = chain.iter().filter_map(|der| end(der)).min() {
                    all.push(Validity { of, host, key, until });
                }
            };
            match of {
                Owner::Listen => {
                    let files = &self.listen.tls.files;
                    for (n, identity) in files.identities.iter().enumerate() {
                        add(self.listen.tls.pair(n).0, &identity.chain);
                    }
                    add("client_ca".into(), &files.client_ca);
                }
                Owner::Upstream { .. } => {
                    let Some(files) = self.upstream_tls(of).map(|tls| &tls.files) else { continue };
                    add("ca".into(), &files.ca);
                    if let Some(client) = &files.client {
                        add("client_cert".into(), &client.chain);
                    }
                }
            }
        }
        all
    }

    /// Everybody who may have files.
    fn owners(&self) -> impl Iterator<Item = Owner> + '_ {
        let upstreams = self.hosts.iter().enumerate().flat_map(|(host, configured)| {
            (0..configured.upstreams.len()).map(move |upstream| Owner::Upstream { host, upstream })
        });
        std::iter::once(Owner::Listen).chain(upstreams)
    }

    fn upstream_tls(&self, of: Owner) -> Option<&UpstreamTls> {
        let Owner::Upstream { host, upstream } = of else { return None };
        self.hosts.get(host)?.upstreams.get(upstream)?.tls.as_ref()
    }

    /// The contents of the files and what they were when they were last taken; nothing where there is no TLS.
    fn contents(&self, of: Owner, pass: &Pass) -> Option<(Contents, u64)> {
        match of {
            Owner::Listen => {
                let tls = &self.listen.tls;
                Some((Contents::read(tls.paths(), pass), tls.files.print))
            }
            Owner::Upstream { .. } => {
                let tls = self.upstream_tls(of)?;
                let paths = [&tls.ca, &tls.client_cert, &tls.client_key];
                Some((Contents::read(paths.map(String::as_str), pass), tls.files.print))
            }
        }
    }

    fn reading(&self, of: Owner, contents: &Contents, known: &Known<'_>) -> Reading {
        let found = match of {
            Owner::Listen => listen(&self.listen.tls, contents, known).map(Found::Listen),
            Owner::Upstream { host, upstream } => {
                let tls = self.upstream_tls(of);
                let files =
                    tls.map_or_else(|| Ok(Files::default()), |tls| upstream_files(tls, contents, known));
                let at = format!("hosts[{host}].upstreams[{upstream}].tls");
                files.map(|files| Found::Upstream(files.noted(&at))).map_err(|fault| vec![fault.at(&at)])
            }
        };
        Reading { of, print: contents.print(), found }
    }
}

/// Reads every file that the model names.
pub(super) fn read(model: &mut Model, running: Option<&Model>, places: &Places) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (pass, known) = (Pass::new(), running.map(Model::in_effect).unwrap_or_default());
    for of in model.owners().collect::<Vec<_>>() {
        let Some((contents, _)) = model.contents(of, &pass) else { continue };
        match model.reading(of, &contents, &known).found {
            Ok(found) => model.take_files(of, found),
            Err(faults) => problems.extend(faults.into_iter().map(|fault| fault.problem(of, places))),
        }
    }
    problems
}

impl Fault {
    fn new(key: &str, path: &str, (cause, says): Wrong) -> Self {
        Self { key: key.to_owned(), path: path.to_owned(), cause, says }
    }

    fn at(mut self, table: &str) -> Self {
        self.key = format!("{table}.{}", self.key);
        self
    }

    fn problem(self, of: Owner, places: &Places) -> Problem {
        // The key that the configuration sets as a whole.
        let place = match of {
            Owner::Listen => {
                let set = self.key.split('[').next().unwrap_or(&self.key);
                // What is missing has no place: what it is missing beside has one.
                let beside =
                    ["cert", "key", "certificates", "client_ca"].map(|key| format!("listen.tls.{key}"));
                let known = std::iter::once(set).chain(beside.iter().map(String::as_str));
                known.map(|key| places.of(key)).find(|place| *place != Place::Default)
            }
            Owner::Upstream { host, .. } => Some(places.near(&format!("hosts[{host}].upstreams"))),
        };
        let value = toml_edit::Value::from(self.path).to_string();
        Problem::new(place.unwrap_or(Place::Default), self.key, self.says)
            .with_value(&value)
            .caused(of, self.cause)
    }
}

/// Why, and in words.
type Wrong = (Cause, String);

/// Certificates in effect, in DER. One that ran out is served on, and so it may be read again.
type Known<'a> = HashSet<&'a [u8]>;

impl Files {
    fn noted(mut self, table: &str) -> Self {
        self.notes = self.notes.into_iter().map(|note| note.at(table)).collect();
        self
    }
}

fn listen(tls: &ListenTls, contents: &Contents, known: &Known<'_>) -> Result<ListenFiles, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut files = ListenFiles { print: contents.print(), ..ListenFiles::default() };
    if tls.cert.is_empty() {
        let others = [("key", tls.key.as_str()), ("client_ca", tls.client_ca.as_str())];
        let certificates = tls.certificates.first().map(|pair| ("certificates", pair.cert.as_str()));
        if let Some((other, _)) = others.into_iter().chain(certificates).find(|(_, path)| !path.is_empty()) {
            let says = format!("is missing beside {other}; write the path of the listener's certificate");
            faults.push(Fault::new("cert", "", (Cause::Incomplete, says)));
        }
    } else {
        let pairs = std::iter::once((&tls.cert, &tls.key))
            .chain(tls.certificates.iter().map(|pair| (&pair.cert, &pair.key)));
        for (n, (cert, key)) in pairs.enumerate() {
            let names = tls.pair(n);
            match pair((&names.0, cert), (&names.1, key), contents, known, &mut files.notes) {
                Ok(identity) if n > 0 && identity.names().is_empty() => {
                    let says =
                        "names no host that it is for (subjectAltName); only `cert` may be without one";
                    faults.push(Fault::new(&names.0, cert, (Cause::Unusable, says.into())));
                }
                Ok(identity) => files.identities.push(identity),
                Err(fault) => faults.push(fault),
            }
        }
        if !tls.client_ca.is_empty() {
            match authorities(&tls.client_ca, contents, known) {
                Ok(taken) => files.client_ca = taken.all("client_ca", &tls.client_ca, &mut files.notes),
                Err(wrong) => faults.push(Fault::new("client_ca", &tls.client_ca, wrong)),
            }
        }
    }
    if faults.is_empty() {
        files.notes = files.notes.into_iter().map(|note| note.at("listen.tls")).collect();
        Ok(files)
    } else {
        Err(faults.into_iter().map(|fault| fault.at("listen.tls")).collect())
    }
}

fn upstream_files(tls: &UpstreamTls, contents: &Contents, known: &Known<'_>) -> Result<Files, Fault> {
    let mut notes = Vec::new();
    let ca = if tls.ca.is_empty() {
        Vec::new()
    } else {
        let taken = certificates(&tls.ca, contents).and_then(|read| trusted(read, known));
        taken.map_err(|wrong| Fault::new("ca", &tls.ca, wrong))?.all("ca", &tls.ca, &mut notes)
    };
    let client = if tls.client_cert.is_empty() && tls.client_key.is_empty() {
        None
    } else {
        let (cert, key) =
            (("client_cert", tls.client_cert.as_str()), ("client_key", tls.client_key.as_str()));
        Some(pair(cert, key, contents, known, &mut notes)?)
    };
    Ok(Files { ca, client, notes, print: contents.print() })
}

/// A certificate and the key beside it, each with the name of its key in the configuration.
fn pair(
    (cert_key, cert): (&str, &str),
    (key_key, key): (&str, &str),
    contents: &Contents,
    known: &Known<'_>,
    notes: &mut Vec<Fault>,
) -> Result<Identity, Fault> {
    let missing = |name: &str, beside: &str, what: &str| {
        let beside = beside.rsplit('.').next().unwrap_or(beside);
        let says = format!("is missing beside {beside}; write the {what}'s path");
        Fault::new(name, "", (Cause::Incomplete, says))
    };
    if cert.is_empty() {
        return Err(missing(cert_key, key_key, "certificate"));
    }
    if key.is_empty() {
        return Err(missing(key_key, cert_key, "key"));
    }
    let taken = certificates(cert, contents).and_then(|read| chain(read, known));
    let chain = taken.map_err(|wrong| Fault::new(cert_key, cert, wrong))?.all(cert_key, cert, notes);
    let wrong_key = |wrong| Fault::new(key_key, key, wrong);
    let der = private_key(key, contents).map_err(wrong_key)?;
    identity(chain, &der).map_err(wrong_key)
}

/// What some files hold, all read at one time.
struct Contents(Vec<(String, Result<Vec<u8>, String>)>);

impl Contents {
    fn read<'a>(paths: impl IntoIterator<Item = &'a str>, pass: &Pass) -> Self {
        let mut known = HashSet::new();
        let paths = paths.into_iter().filter(|path| !path.is_empty() && known.insert(*path));
        Self(paths.map(|path| (path.to_owned(), pass.read(Path::new(path)))).collect())
    }

    fn get(&self, path: &str) -> Result<&[u8], Wrong> {
        let found = self.0.iter().find(|(known, _)| known == path).map(|(_, contents)| contents.as_ref());
        match found {
            Some(Ok(contents)) => Ok(contents),
            Some(Err(error)) => {
                let says = format!("cannot be read ({error}); write the path of a PEM file");
                Err((Cause::Unreadable, says))
            }
            None => Err((Cause::Unreadable, "is not read; write the path of a PEM file".into())),
        }
    }

    /// Tells contents from others; never that of no files.
    fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        if self.0.is_empty() { 0 } else { hasher.finish() | 1 }
    }
}

/// One certificate of a file.
struct Read {
    der: Vec<u8>,
    /// It is outside its time.
    wrong: Option<Wrong>,
}

/// What is used of a file, and what is to be said about it.
struct Taken {
    ders: Vec<Vec<u8>>,
    notes: Vec<Wrong>,
}

impl Taken {
    fn all(self, key: &str, path: &str, notes: &mut Vec<Fault>) -> Vec<Vec<u8>> {
        notes.extend(self.notes.into_iter().map(|wrong| Fault::new(key, path, wrong)));
        self.ders
    }
}

/// Every certificate of a PEM file, at least one.
fn certificates(path: &str, contents: &Contents) -> Result<Vec<Read>, Wrong> {
    let pem = contents.get(path)?;
    let unusable = |says: String| (Cause::Unusable, says);
    let mut all = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let der = certificate.map_err(|error| unusable(format!("is no PEM file ({error})")))?;
        let (_, read) = X509Certificate::from_der(&der)
            .map_err(|_| unusable("holds a certificate that cannot be read".into()))?;
        let validity = read.validity();
        let wrong = (!validity.is_valid()).then(|| {
            let (from, to) = (validity.not_before, validity.not_after);
            let cause = if ASN1Time::now() < from { Cause::NotYetValid } else { Cause::Expired };
            (cause, format!("holds a certificate that is valid from {from} to {to} only; renew it"))
        });
        all.push(Read { der: der.to_vec(), wrong });
    }
    if all.is_empty() {
        return Err(unusable("holds no certificate; write the path of a PEM file with one".into()));
    }
    Ok(all)
}

/// A certificate and those beside it. The leaf decides whether it can be used; another one that ran out, such as an old
/// root that was signed across, is left out: clients that find it in their way have none without it.
fn chain(read: Vec<Read>, known: &Known<'_>) -> Result<Taken, Wrong> {
    let mut taken = Taken { ders: Vec::new(), notes: Vec::new() };
    for (n, Read { der, wrong }) in read.into_iter().enumerate() {
        match wrong {
            Some(wrong) if n == 0 && !known.contains(der.as_slice()) => return Err(wrong),
            Some((Cause::Expired, says)) if n > 0 => {
                taken.notes.push((Cause::Expired, format!("{says}; it is left out")));
                continue;
            }
            Some((cause, says)) => taken.notes.push((cause, format!("{says}; it is in use all the same"))),
            None => {}
        }
        taken.ders.push(der);
    }
    Ok(taken)
}

/// Certificates of those who are believed. One that ran out is left out, as long as another is left.
fn trusted(read: Vec<Read>, known: &Known<'_>) -> Result<Taken, Wrong> {
    let is_any_valid = read.iter().any(|one| one.wrong.is_none());
    let mut taken = Taken { ders: Vec::new(), notes: Vec::new() };
    let mut first = None;
    for Read { der, wrong } in read {
        match wrong {
            Some((Cause::Expired, says)) if is_any_valid => {
                taken.notes.push((Cause::Expired, format!("{says}; it is left out")));
                continue;
            }
            Some(wrong) if !is_any_valid && !known.contains(der.as_slice()) => {
                first = first.or(Some(wrong));
                continue;
            }
            // One that is not valid yet was put there before its time comes.
            Some((cause, says)) => taken.notes.push((cause, format!("{says}; it is in use all the same"))),
            None => {}
        }
        taken.ders.push(der);
    }
    match first {
        Some(wrong) if taken.ders.is_empty() => Err(wrong),
        _ => Ok(taken),
    }
}

/// Certificates of those who sign others'.
fn authorities(path: &str, contents: &Contents, known: &Known<'_>) -> Result<Taken, Wrong> {
    let taken = trusted(certificates(path, contents)?, known)?;
    let mut roots = RootCertStore::empty();
    for der in &taken.ders {
        roots.add(CertificateDer::from(der.as_slice())).map_err(|error| {
            (Cause::Unusable, format!("holds a certificate that no other can be checked by ({error})"))
        })?;
    }
    Ok(taken)
}

fn private_key(path: &str, contents: &Contents) -> Result<PrivateKeyDer<'static>, Wrong> {
    let says = "holds no private key; write the path of a PEM file with one, not encrypted";
    PrivateKeyDer::from_pem_slice(contents.get(path)?).map_err(|_| (Cause::Unusable, says.into()))
}

/// A chain and the key that belongs to its leaf.
fn identity(chain: Vec<Vec<u8>>, key: &PrivateKeyDer<'static>) -> Result<Identity, Wrong> {
    let der = key.secret_der().to_vec();
    let signing = rustls::crypto::ring::sign::any_supported_type(key).map_err(|_| {
        let says = "is of a kind that is not supported; use RSA, ECDSA P-256 or P-384, or Ed25519";
        (Cause::Unusable, says.to_owned())
    })?;
    let certified =
        CertifiedKey::new(chain.iter().map(|der| CertificateDer::from(der.clone())).collect(), signing);
    certified.keys_match().map_err(|_| {
        let says = "does not belong to the certificate; write the key that it was made with";
        (Cause::Mismatch, says.to_owned())
    })?;
    Ok(Identity { chain, key: der })
}

fn names(leaf: &[u8]) -> Vec<String> {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Vec::new() };
    let Ok(Some(alternatives)) = leaf.subject_alternative_name() else { return Vec::new() };
    let names = alternatives.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    names.collect()
}

/// When a certificate ends, in Unix time.
fn end(der: &[u8]) -> Option<i64> {
    let (_, read) = X509Certificate::from_der(der).ok()?;
    Some(read.validity().not_after.timestamp())
}
