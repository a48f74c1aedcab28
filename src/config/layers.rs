//! Reads every source into a layer of checked values and puts the layers on top of each other:
//! defaults < file < environment < flags (U-1).
//!
//! Lists of tables (`hosts`, `interfaces`) are layered by index, as dictionaries with the index as key,
//! so that `A2A_ERRATA_HOSTS__0__MODE` changes one key of one host and leaves the file's others alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path as FilePath;

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use toml_edit::{ImDocument, Item, TableLike, Value as Toml};

use super::keys::{self, KEYS, Key, Kind};
use super::{
    ENV_LOG, ENV_PREFIX, Effective, Line, Model, Place, Problem, Problems, Sources, checks, files, tls,
};

/// One step into the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The way to one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Path(Vec<Step>);

impl Path {
    fn key(&self, name: &str) -> Self {
        self.then(Step::Key(name.to_owned()))
    }

    fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    fn write(&self, index: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                Step::Key(name) if text.is_empty() => text.push_str(name),
                Step::Key(name) => _ = write!(text, ".{name}"),
                Step::Index(n) => _ = write!(text, "[{}]", index(*n)),
            }
        }
        text
    }

    /// As messages write it: `hosts[0].mode`.
    fn shown(&self) -> String {
        self.write(|n| n.to_string())
    }

    /// As [`KEYS`] writes it: `hosts[].mode`.
    fn pattern(&self) -> String {
        self.write(|_| String::new())
    }

    /// As a variable: `A2A_ERRATA_HOSTS__0__MODE`.
    fn variable(&self) -> String {
        let steps: Vec<String> = self
            .0
            .iter()
            .map(|step| match step {
                Step::Key(name) => name.to_ascii_uppercase(),
                Step::Index(n) => n.to_string(),
            })
            .collect();
        format!("{ENV_PREFIX}{}", steps.join("__"))
    }
}

/// What one source sets, checked value by value.
#[derive(Debug)]
struct Layer {
    name: &'static str,
    values: Vec<(Path, Value)>,
    /// Members of lists of tables that exist, even without a key of their own.
    tables: Vec<Path>,
    /// Where each of them was set, by the path as shown.
    places: BTreeMap<String, Place>,
}

impl Layer {
    fn new(name: &'static str) -> Self {
        Self { name, values: Vec::new(), tables: Vec::new(), places: BTreeMap::new() }
    }

    /// Check a value and take it, or say what is wrong with it. `text` is what its spans point into:
    /// a bad value is shown as it was written.
    fn set(
        &mut self,
        path: Path,
        kind: Kind,
        toml: &Toml,
        text: &str,
        at: impl Fn(Option<Range<usize>>) -> Place,
    ) -> Vec<Problem> {
        match read(kind, toml) {
            Ok(value) => {
                self.places.insert(path.shown(), at(toml.span()));
                self.values.push((path, value));
                Vec::new()
            }
            Err(faults) => faults
                .into_iter()
                .map(|fault| {
                    let element = fault.element.map(|n| format!("[{n}]")).unwrap_or_default();
                    let written = fault.span.clone().and_then(|span| text.get(span));
                    let place = at(fault.span.clone().or(toml.span()));
                    let problem = Problem::new(place, path.shown() + &element, fault.says);
                    if Key::find(&path.pattern()).is_some_and(Key::is_credential) {
                        return problem;
                    }
                    problem.with_value(written.unwrap_or(&fault.value))
                })
                .collect(),
        }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut root = Dict::new();
        for table in &self.tables {
            insert(&mut root, &table.0, None);
        }
        for (path, value) in &self.values {
            insert(&mut root, &path.0, Some(value));
        }
        Ok(Profile::Default.collect(root))
    }
}

/// Put a value (or an empty table) at the end of a path.
fn insert(dict: &mut Dict, path: &[Step], value: Option<&Value>) {
    let Some((step, rest)) = path.split_first() else { return };
    let name = match step {
        Step::Key(name) => name.clone(),
        Step::Index(n) => n.to_string(),
    };
    match value {
        Some(value) if rest.is_empty() => _ = dict.insert(name, value.clone()),
        _ => {
            let inner = dict.entry(name).or_insert_with(|| Value::from(Dict::new()));
            if let Value::Dict(_, inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// What is wrong with a value, or with one element of it.
#[derive(Debug)]
struct Fault {
    element: Option<usize>,
    span: Option<Range<usize>>,
    value: String,
    says: String,
}

impl Fault {
    fn of(value: &Toml, says: impl Into<String>) -> Self {
        Self { element: None, span: value.span(), value: value.to_string(), says: says.into() }
    }
}

/// What a key wants, for people.
fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Text(_) => "must be a text in quotes".into(),
        Kind::Flag => "must be true or false".into(),
        Kind::Number(least, i64::MAX) => format!("must be a whole number of at least {least}"),
        Kind::Number(least, most) => format!("must be a whole number from {least} to {most}"),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("must be {}", words.join(" or "))
        }
        Kind::Texts(_) => "must be a list of texts, for example [\"…\", \"…\"]".into(),
        Kind::Upstreams => "must be a list of addresses, for example [\"127.0.0.1:9000\"]".into(),
        Kind::Certificates => {
            "must be a list of tables, for example [{ cert = \"/etc/tls/a.crt\", key = \"/etc/tls/a.key\" }]"
                .into()
        }
        Kind::Table | Kind::Tables => "must be a table".into(),
        Kind::Later(members) => format!("must be a table of {}", members.join(", ")),
    }
}

/// Check one value against its kind.
fn read(kind: Kind, toml: &Toml) -> Result<Value, Vec<Fault>> {
    let wrong = || vec![Fault::of(toml, wanted(kind))];
    match kind {
        Kind::Text(check) => {
            let text = toml.as_str().ok_or_else(wrong)?;
            check(text).map_err(|says| vec![Fault::of(toml, says)])?;
            Ok(text.into())
        }
        Kind::Flag => toml.as_bool().map(Value::from).ok_or_else(wrong),
        Kind::Number(least, most) => toml
            .as_integer()
            .filter(|number| (least..=most).contains(number))
            .map(Value::from)
            .ok_or_else(wrong),
        Kind::Choice(words) => match toml.as_str() {
            Some(word) if words.contains(&word) => Ok(word.into()),
            Some(word) => {
                let hint = keys::nearest(word, words).map(|near| format!("; did you mean \"{near}\"?"));
                Err(vec![Fault::of(toml, wanted(kind) + &hint.unwrap_or_default())])
            }
            None => Err(wrong()),
        },
        Kind::Texts(check) => elements(toml, wrong, |element| {
            let text = element.as_str().ok_or("must be a text in quotes")?;
            check(text).map(|()| text.into())
        }),
        Kind::Upstreams => elements(toml, wrong, upstream),
        Kind::Certificates => elements(toml, wrong, certificate),
        Kind::Table | Kind::Tables | Kind::Later(_) => Err(wrong()),
    }
}

/// Check a list element by element; all that is wrong is told.
fn elements(
    toml: &Toml,
    wrong: impl Fn() -> Vec<Fault>,
    check: impl Fn(&Toml) -> Result<Value, String>,
) -> Result<Value, Vec<Fault>> {
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for (n, element) in toml.as_array().ok_or_else(wrong)?.iter().enumerate() {
        match check(element) {
            Ok(value) => values.push(value),
            Err(says) => faults.push(Fault { element: Some(n), ..Fault::of(element, says) }),
        }
    }
    if faults.is_empty() { Ok(values.into()) } else { Err(faults) }
}

/// One upstream: an address, or a table with one, its weight, HTTP/2 and TLS.
fn upstream(element: &Toml) -> Result<Value, String> {
    if let Some(text) = element.as_str() {
        return keys::address(text).map(|()| text.into());
    }
    let table = element.as_inline_table().ok_or("must be an address, for example \"127.0.0.1:9000\"")?;
    if let Some((name, _)) =
        table.iter().find(|(name, _)| !matches!(*name, "address" | "weight" | "http2" | "tls"))
    {
        return Err(format!("unknown key `{name}`; an upstream has `address`, `weight`, `http2` and `tls`"));
    }
    let text = table
        .get("address")
        .and_then(Toml::as_str)
        .ok_or("has no `address`; write { address = \"127.0.0.1:9000\" }")?;
    keys::address(text)?;
    let mut dict = Dict::from([("address".to_owned(), text.into())]);
    if let Some(weight) = table.get("weight") {
        let weight = weight.as_integer().filter(|weight| (0..=keys::MOST_WEIGHT).contains(weight));
        let weight = weight.ok_or_else(|| {
            format!("`weight` must be a whole number from 0 (gets nothing new) to {}", keys::MOST_WEIGHT)
        })?;
        dict.insert("weight".to_owned(), weight.into());
    }
    if let Some(http2) = table.get("http2") {
        let word = http2.as_str().filter(|word| keys::HTTP2.contains(word));
        let word = word.ok_or_else(|| "`http2` ".to_owned() + &wanted(Kind::Choice(keys::HTTP2)))?;
        match (word, table.contains_key("tls")) {
            ("alpn", false) => {
                return Err(
                    "`http2 = \"alpn\"` is agreed on over TLS, and there is no `tls`; write `tls = {}` \
                            too, or \"prior_knowledge\""
                        .into(),
                );
            }
            ("prior_knowledge", true) => {
                return Err("`http2 = \"prior_knowledge\"` is for hosts without TLS; write \"alpn\"".into());
            }
            _ => dict.insert("http2".to_owned(), word.into()),
        };
    }
    if let Some(tls) = table.get("tls") {
        dict.insert("tls".to_owned(), upstream_tls(tls)?);
    }
    Ok(if dict.len() == 1 { text.into() } else { dict.into() })
}

/// A certificate for the names that it has, and its key.
fn certificate(element: &Toml) -> Result<Value, String> {
    let example = "{ cert = \"/etc/tls/a.crt\", key = \"/etc/tls/a.key\" }";
    let table = element.as_inline_table().ok_or_else(|| format!("must be a table; write {example}"))?;
    if let Some((name, _)) = table.iter().find(|(name, _)| !matches!(*name, "cert" | "key")) {
        return Err(format!("unknown key `{name}`; a certificate has `cert` and `key`"));
    }
    let mut dict = Dict::new();
    for name in ["cert", "key"] {
        let text = table.get(name).and_then(Toml::as_str).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| format!("has no `{name}`; write {example}"))?;
        keys::file_or_off(text).map_err(|says| format!("`{name}` is {says}"))?;
        dict.insert(name.to_owned(), text.into());
    }
    Ok(dict.into())
}

/// How an upstream is spoken to over TLS, with every default.
fn upstream_tls(toml: &Toml) -> Result<Value, String> {
    const TEXTS: [&str; 4] = ["sni", "ca", "client_cert", "client_key"];
    let table =
        toml.as_inline_table().ok_or("`tls` must be a table, for example { ca = \"/etc/tls/ca.crt\" }")?;
    if let Some((name, _)) = table.iter().find(|(name, _)| !TEXTS.contains(name) && *name != "verify") {
        return Err(format!("unknown key `tls.{name}`; known here are {} and verify", TEXTS.join(", ")));
    }
    let mut dict = Dict::new();
    for name in TEXTS {
        let text = match table.get(name) {
            Some(value) => value.as_str().ok_or_else(|| format!("`tls.{name}` must be a text in quotes"))?,
            None => "",
        };
        if name == "sni" && !text.is_empty() {
            keys::server_name(text).map_err(|says| format!("`tls.sni` is {says}"))?;
        }
        dict.insert(name.to_owned(), text.into());
    }
    let verify = match table.get("verify") {
        Some(value) => value.as_bool().ok_or("`tls.verify` must be true or false")?,
        None => true,
    };
    dict.insert("verify".to_owned(), verify.into());
    Ok(dict.into())
}

/// The file as a layer.
fn file(path: &FilePath, again: bool, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new("file");
    let text = match files::toml(path, again) {
        Ok(text) => text,
        Err(error) => {
            let says = format!("cannot be read ({error}); give the path of a TOML file");
            problems.push(Problem::new(Place::WholeFile(path.to_owned()), "", says));
            return layer;
        }
    };
    let document = match ImDocument::parse(text.as_str()) {
        Ok(document) => document,
        Err(error) => {
            let place = Place::in_file(path, &text, error.span().map_or(0, |span| span.start));
            let says = error.message().trim().replace('\n', "; ");
            problems.push(Problem::new(place, "", format!("not TOML: {says}")));
            return layer;
        }
    };
    FileWalk { path, text: &text, layer: &mut layer, problems }.table(&Path::default(), document.as_table());
    layer
}

/// What a key was given. A list of tables may be written with headers of their own.
fn value_of(kind: Kind, item: &Item) -> Option<Cow<'_, Toml>> {
    match (kind, item) {
        (_, Item::Value(value)) => Some(Cow::Borrowed(value)),
        (Kind::Certificates, Item::ArrayOfTables(tables)) => {
            Some(Cow::Owned(Toml::Array(tables.clone().into_array())))
        }
        _ => None,
    }
}

/// Goes through the file's tables.
struct FileWalk<'a> {
    path: &'a FilePath,
    text: &'a str,
    layer: &'a mut Layer,
    problems: &'a mut Vec<Problem>,
}

impl FileWalk<'_> {
    fn at(&self, span: Option<Range<usize>>) -> Place {
        span.map_or_else(
            || Place::WholeFile(self.path.to_owned()),
            |span| Place::in_file(self.path, self.text, span.start),
        )
    }

    fn problem(
        &mut self,
        span: Option<Range<usize>>,
        path: &Path,
        value: Option<&Item>,
        says: impl Into<String>,
    ) {
        let mut problem = Problem::new(self.at(span), path.shown(), says);
        if let Some(Item::Value(value)) = value {
            problem = problem.with_value(&value.to_string());
        }
        self.problems.push(problem);
    }

    fn table(&mut self, at: &Path, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            let path = at.key(name);
            let key_span = table.get_key_value(name).and_then(|(key, _)| key.span());
            let Some(key) = Key::find(&path.pattern()) else {
                self.problem(key_span, &path, None, keys::unknown(&at.pattern(), name));
                continue;
            };
            match key.kind {
                Kind::Table => match item.as_table_like() {
                    Some(inner) => self.table(&path, inner),
                    None => self.problem(item.span().or(key_span), &path, Some(item), wanted(key.kind)),
                },
                Kind::Tables => self.tables(&path, item, key_span),
                Kind::Later(members) => self.later(&path, item, key_span, members),
                kind => match value_of(kind, item) {
                    Some(value) => {
                        let (file, text) = (self.path, self.text);
                        let found = self.layer.set(path, kind, &value, text, |span| {
                            Place::in_file(file, text, span.or(key_span.clone()).map_or(0, |span| span.start))
                        });
                        self.problems.extend(found);
                    }
                    None => self.problem(item.span().or(key_span), &path, None, wanted(kind)),
                },
            }
        }
    }

    fn tables(&mut self, path: &Path, item: &Item, key_span: Option<Range<usize>>) {
        let header = path.pattern().replace("[]", "");
        let says = format!("is a list of tables; write [[{header}]]");
        if let Some(tables) = item.as_array_of_tables() {
            for (n, table) in tables.iter().enumerate() {
                self.member(&path.index(n), table, table.span());
            }
        } else if let Some(array) = item.as_array() {
            for (n, element) in array.iter().enumerate() {
                match element.as_inline_table() {
                    Some(table) => self.member(&path.index(n), table, element.span()),
                    None => self.problem(element.span(), &path.index(n), None, says.clone()),
                }
            }
        } else {
            self.problem(item.span().or(key_span), path, None, says);
        }
    }

    fn member(&mut self, path: &Path, table: &dyn TableLike, span: Option<Range<usize>>) {
        let place = self.at(span);
        self.layer.places.insert(path.shown(), place);
        self.layer.tables.push(path.clone());
        self.table(path, table);
    }

    fn later(&mut self, path: &Path, item: &Item, key_span: Option<Range<usize>>, members: &[&str]) {
        let Some(table) = item.as_table_like() else {
            return self.problem(
                item.span().or(key_span),
                path,
                Some(item),
                wanted(Kind::Later(&[])) + &members.join(", "),
            );
        };
        if let Some((name, _)) = table.iter().find(|(name, _)| !members.contains(name)) {
            let span = table.get_key_value(name).and_then(|(key, _)| key.span()).or(key_span);
            let says = format!("unknown key; known here are {}", members.join(", "));
            return self.problem(span, &path.key(name), None, says);
        }
        self.problem(key_span.or(item.span()), path, None, "this build does not support it yet; remove it");
    }
}

/// Variables that Kubernetes sets for a service named `a2a-errata`: they have the prefix, but nobody
/// means them as configuration, and no key begins like them.
fn is_service_link(rest: &str) -> bool {
    rest == "PORT"
        || rest == "SERVICE_HOST"
        || rest == "SERVICE_PORT"
        || rest.starts_with("SERVICE_PORT_")
        || rest.strip_prefix("PORT_").is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()))
}

/// The environment as a layer.
fn environment(variables: &[(String, String)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new("environment");
    let mut variables: Vec<_> = variables.iter().collect();
    variables.sort();
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
        if name == ENV_LOG || is_service_link(rest) {
            continue;
        }
        let place = Place::Env(name.clone());
        match variable_path(rest) {
            Ok((path, tables, kind)) => {
                let found = match from_text(kind, text) {
                    Ok(value) => layer.set(path.clone(), kind, &value, "", |_| place.clone()),
                    Err(says) => {
                        vec![Problem::new(place.clone(), path.shown(), says).with_value(&quoted(text))]
                    }
                };
                problems.extend(found);
                for table in tables {
                    layer.places.entry(table.shown()).or_insert_with(|| place.clone());
                    layer.tables.push(table);
                }
            }
            Err((path, says)) => problems.push(Problem::new(place, path.shown(), says)),
        }
    }
    layer
}

/// The key a variable's name means, with the members of lists on the way to it.
fn variable_path(rest: &str) -> Result<(Path, Vec<Path>, Kind), (Path, String)> {
    let mut path = Path::default();
    let mut tables = Vec::new();
    let mut kind = Kind::Table;
    let mut parts = rest.split("__").peekable();
    while let Some(part) = parts.next() {
        let name = part.to_ascii_lowercase();
        let next = path.key(&name);
        let pattern = next.pattern();
        let Some(key) = Key::find(&pattern) else {
            let parent = path.pattern();
            return Err((next, keys::unknown(&parent, &name)));
        };
        path = next;
        kind = key.kind;
        if matches!(kind, Kind::Tables) {
            let index = parts.next().and_then(|part| part.parse::<usize>().ok());
            let Some(index) = index.filter(|_| parts.peek().is_some()) else {
                let example = KEYS.iter().find(|key| key.split().0 == format!("{pattern}[]"));
                let name = example.map_or("", |key| key.split().1);
                let variable = path.index(0).key(name).variable();
                return Err((
                    path,
                    format!("is a list of tables, numbered from 0; write for example {variable}"),
                ));
            };
            path = path.index(index);
            tables.push(path.clone());
        } else if !matches!(kind, Kind::Table) {
            break;
        }
    }
    if let Some(part) = parts.next() {
        let says = if matches!(kind, Kind::Later(_)) {
            "this build does not support it yet; remove it".into()
        } else {
            format!("unknown key; `{}` has none below it", path.shown())
        };
        return Err((path.key(&part.to_ascii_lowercase()), says));
    }
    match kind {
        Kind::Later(_) => Err((path, "this build does not support it yet; remove it".into())),
        Kind::Table | Kind::Tables => {
            let pattern = path.pattern();
            let name = KEYS.iter().find(|key| key.split().0 == pattern).map_or("", |key| key.split().1);
            let variable = path.key(name).variable();
            Err((path, format!("is a table; set its keys one by one, for example {variable}")))
        }
        kind => Ok((path, tables, kind)),
    }
}

/// The text of a variable or flag as a value of this kind. Lists are comma-separated, or TOML when they
/// begin with a bracket.
fn from_text(kind: Kind, text: &str) -> Result<Toml, String> {
    let trimmed = text.trim();
    match kind {
        Kind::Flag | Kind::Number(..) => trimmed.parse().map_err(|_| wanted(kind)),
        Kind::Certificates => trimmed.parse().map_err(|_| wanted(kind)),
        Kind::Texts(_) | Kind::Upstreams if trimmed.starts_with('[') => {
            trimmed.parse().map_err(|_| wanted(kind))
        }
        Kind::Texts(_) | Kind::Upstreams => {
            Ok(trimmed.split(',').map(str::trim).filter(|part| !part.is_empty()).collect())
        }
        Kind::Text(_) | Kind::Choice(_) | Kind::Table | Kind::Tables | Kind::Later(_) => Ok(text.into()),
    }
}

fn quoted(text: &str) -> String {
    Toml::from(text).to_string()
}

/// The flags as a layer.
fn flags(flags: &super::Flags, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new("flags");
    let host = Path::default().key("hosts").index(0);
    let single = |flag: &'static str, text: &Option<String>, table: &str| {
        text.as_ref().map(|text| (flag, Path::default().key(table).key("address"), Toml::from(text.as_str())))
    };
    let upstreams = (!flags.upstreams.is_empty())
        .then(|| ("--upstream", host.key("upstreams"), flags.upstreams.iter().map(String::as_str).collect()));
    let given =
        [single("--listen", &flags.listen, "listen"), single("--admin", &flags.admin, "admin"), upstreams];
    for (flag, path, value) in given.into_iter().flatten() {
        if let Some(key) = Key::find(&path.pattern()) {
            problems.extend(layer.set(path, key.kind, &value, "", |_| Place::Flag(flag)));
        }
    }
    if !flags.upstreams.is_empty() {
        layer.places.insert(host.shown(), Place::Flag("--upstream"));
        layer.tables.push(host);
    }
    layer
}

/// What is built in, for so many hosts with so many interfaces each.
fn defaults(interfaces: &[usize]) -> Layer {
    let mut layer = Layer::new("default");
    let mut set = |path: Path, key: &Key| {
        if let Some(Ok(value)) = key.default.map(str::parse::<Toml>)
            && let Ok(value) = read(key.kind, &value)
        {
            layer.values.push((path, value));
        }
    };
    let parts = |path: &str| path.split('.').fold(Path::default(), |path, part| path.key(part));
    for key in KEYS {
        let Some(rest) = key.path.strip_prefix("hosts[].") else {
            set(parts(key.path), key);
            continue;
        };
        for (n, interfaces) in interfaces.iter().enumerate() {
            let host = Path::default().key("hosts").index(n);
            if let Some(name) = rest.strip_prefix("interfaces[].") {
                for i in 0..*interfaces {
                    set(host.key("interfaces").index(i).key(name), key);
                }
            } else {
                set(rest.split('.').fold(host, |path, part| path.key(part)), key);
            }
        }
    }
    layer
}

/// Every layer on top of the ones before it.
fn merge(layers: &[&Layer]) -> (Figment, Value) {
    let figment = layers.iter().fold(Figment::new(), |figment, layer| figment.merge(*layer));
    let value = figment.find_value("").unwrap_or_else(|_| Value::from(Dict::new()));
    (figment, value)
}

/// The members of a list of tables, in the order of their numbers, or the number that is missing.
fn members(list: Option<&Value>) -> Result<Vec<&Value>, usize> {
    let Some(dict) = list.and_then(Value::as_dict) else { return Ok(Vec::new()) };
    (0..dict.len()).map(|n| dict.get(&n.to_string()).ok_or(n)).collect()
}

/// Lists of tables as lists again.
fn with_lists(value: Value, at: &str) -> Value {
    match value {
        Value::Dict(tag, dict) => {
            let prefix = if at.is_empty() { String::new() } else { format!("{at}.") };
            let is_list = Key::find(at).is_some_and(|key| matches!(key.kind, Kind::Tables));
            if is_list {
                let mut members: Vec<(usize, Value)> = dict
                    .into_iter()
                    .filter_map(|(n, member)| Some((n.parse().ok()?, with_lists(member, &format!("{at}[]")))))
                    .collect();
                members.sort_by_key(|(n, _)| *n);
                Value::Array(tag, members.into_iter().map(|(_, member)| member).collect())
            } else {
                let inner = |(name, value): (String, Value)| {
                    let value = with_lists(value, &format!("{prefix}{name}"));
                    (name, value)
                };
                Value::Dict(tag, dict.into_iter().map(inner).collect())
            }
        }
        other => other,
    }
}

/// Where the values in effect came from.
#[derive(Debug, Default)]
pub(super) struct Places {
    values: BTreeMap<String, Place>,
    tables: BTreeMap<String, Place>,
}

impl Places {
    /// Of a value; [`Place::Default`] when nobody set it.
    pub(super) fn of(&self, key: &str) -> Place {
        self.values.get(key).cloned().unwrap_or(Place::Default)
    }

    /// Of a value, or of the table it would be in.
    pub(super) fn near(&self, key: &str) -> Place {
        match self.of(key) {
            Place::Default => {
                let table = key.rsplit_once('.').map_or("", |(table, _)| table);
                self.tables.get(table).or_else(|| self.tables.get(key)).cloned().unwrap_or(Place::Default)
            }
            place => place,
        }
    }
}

/// A value as TOML on one line.
fn as_toml(value: &Value) -> String {
    match value {
        Value::String(_, text) => Toml::from(text.as_str()).to_string(),
        Value::Char(_, c) => Toml::from(c.to_string()).to_string(),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => number.to_i128().map(|n| n.to_string()).unwrap_or_default(),
        Value::Array(_, values) => {
            let values: Vec<String> = values.iter().map(as_toml).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Dict(_, dict) => {
            let members: Vec<String> =
                dict.iter().map(|(name, value)| format!("{name} = {}", as_toml(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Empty(..) => String::new(),
    }
}

/// See [`super::load`].
pub(super) fn load(sources: &Sources, running: Option<&Model>) -> Result<Effective, Problems> {
    let mut problems = Vec::new();
    let file_layer = match &sources.file {
        Some(path) => file(path, running.is_some(), &mut problems),
        None => Layer::new("file"),
    };
    let environment = environment(&sources.environment, &mut problems);
    let flags = flags(&sources.flags, &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }

    let mut places = Places::default();
    for layer in [&file_layer, &environment, &flags] {
        for table in &layer.tables {
            if let Some(place) = layer.places.get(&table.shown()) {
                places.tables.entry(table.shown()).or_insert_with(|| place.clone());
            }
        }
    }

    let (_, given) = merge(&[&file_layer, &environment, &flags]);
    let interfaces = shape(sources, &given, &places)?;

    let defaults = defaults(&interfaces);
    let layers = [&defaults, &file_layer, &environment, &flags];
    let (figment, merged) = merge(&layers);
    let mut lines = Vec::new();
    for (path, value) in leaves(&merged, &interfaces) {
        let key = path.shown();
        let layer = figment.get_metadata(value.tag()).map(|metadata| metadata.name.clone());
        let place = layers
            .iter()
            .find(|known| Some(known.name) == layer.as_deref())
            .and_then(|layer| layer.places.get(&key))
            .cloned()
            .unwrap_or(Place::Default);
        places.values.insert(key.clone(), place.clone());
        lines.push(Line { key, value: as_toml(value), place });
    }

    let mut model: Model = with_lists(merged, "")
        .deserialize()
        .map_err(|error| Problems(vec![Problem::new(Place::Default, "", error.to_string())]))?;
    let mut found = checks::check(&model, &places);
    found.extend(tls::read(&mut model, running, &places));
    if found.is_empty() { Ok(Effective { model, lines }) } else { Err(Problems(found)) }
}

/// How many hosts there are and how many interfaces each has, once nothing is missing.
fn shape(sources: &Sources, given: &Value, places: &Places) -> Result<Vec<usize>, Problems> {
    let whole = || sources.file.clone().map_or(Place::Default, Place::WholeFile);
    let gap = |list: &str, missing: usize| {
        let prefix = format!("{list}[");
        let place = places.tables.iter().rev().find(|(key, _)| key.starts_with(&prefix));
        let place = place.map_or_else(whole, |(_, place)| place.clone());
        let says = "is missing; number the tables from 0 without a gap";
        Problems(vec![Problem::new(place, format!("{list}[{missing}]"), says)])
    };
    let hosts = members(given.find_ref("hosts")).map_err(|missing| gap("hosts", missing))?;
    if hosts.is_empty() {
        let says = "there is no host; add a [[hosts]] table with upstreams = [\"127.0.0.1:9000\"], or give \
                    --upstream HOST:PORT";
        return Err(Problems(vec![Problem::new(whole(), "hosts", says)]));
    }
    if hosts.len() > 1 && !sources.flags.upstreams.is_empty() {
        let says = format!("there are {} hosts and the flag fits one only; set it in the file", hosts.len());
        return Err(Problems(vec![Problem::new(Place::Flag("--upstream"), "hosts[0].upstreams", says)]));
    }
    let mut counts = Vec::new();
    let mut problems = Vec::new();
    for (n, host) in hosts.into_iter().enumerate() {
        if host.find_ref("upstreams").is_none() {
            let key = format!("hosts[{n}].upstreams");
            let says = "is missing; write for example [\"127.0.0.1:9000\"]";
            problems.push(Problem::new(places.near(&key), key, says));
        }
        let list = format!("hosts[{n}].interfaces");
        let interfaces = members(host.find_ref("interfaces")).map_err(|missing| gap(&list, missing))?;
        for (i, interface) in interfaces.iter().enumerate() {
            if interface.find_ref("path").is_none() {
                let key = format!("{list}[{i}].path");
                problems.push(Problem::new(places.near(&key), key, "is missing; write for example \"/a2a\""));
            }
        }
        counts.push(interfaces.len());
    }
    if problems.is_empty() { Ok(counts) } else { Err(Problems(problems)) }
}

/// Every value, in the order of [`KEYS`], hosts one after the other.
fn leaves<'a>(merged: &'a Value, interfaces: &[usize]) -> Vec<(Path, &'a Value)> {
    let mut found = Vec::new();
    let mut look = |path: Path| {
        let dotted = path.write(|n| format!(".{n}")).replace("[.", ".").replace(']', "");
        if let Some(value) = merged.find_ref(&dotted) {
            found.push((path, value));
        }
    };
    let values = || KEYS.iter().filter(|key| key.is_value());
    let parts = |from: Path, rest: &str| rest.split('.').fold(from, |path, part| path.key(part));
    for key in values().filter(|key| !key.path.starts_with("hosts")) {
        look(parts(Path::default(), key.path));
    }
    for (n, count) in interfaces.iter().enumerate() {
        let host = Path::default().key("hosts").index(n);
        let of_host = || values().filter_map(|key| key.path.strip_prefix("hosts[]."));
        for rest in of_host().filter(|rest| !rest.starts_with("interfaces[]")) {
            look(parts(host.clone(), rest));
        }
        for i in 0..*count {
            for rest in of_host().filter_map(|rest| rest.strip_prefix("interfaces[].")) {
                look(parts(host.key("interfaces").index(i), rest));
            }
        }
    }
    found
}
