//! The probe against hosts whose faults are known: the model host passes every check, and each sabotage turns
//! its check red, and only that, for the reason it is there for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use a2a_errata::demo::{
    CREDENTIAL, FINISHED, FOREIGN, LegacyHost, ModelHost, OWN_TASK, Sabotage, THEIR_TASK,
};
use a2a_errata::normalize::Binding;
use a2a_errata::outbound::Typed;
use a2a_errata::probe::{
    self, Bounds, CHECKS, Client, Finding, Follow, Options, Session, Trust, Verdict, Wire,
};
use http::{HeaderMap, HeaderValue};

const BOUNDS: Bounds = Bounds { per_second: 1000, in_all: 1000, timeout: Duration::from_secs(20) };

fn options() -> Options {
    let mut credentials = HeaderMap::new();
    credentials.insert("authorization", HeaderValue::from_static(CREDENTIAL));
    Options {
        credentials,
        task: Some(OWN_TASK.to_owned()),
        foreign: Some(THEIR_TASK.to_owned()),
        pairs: 20,
        oversize: 2 << 20,
        ..Options::default()
    }
}

/// Every interface of the host, every check.
async fn probe(url: &str, options: &Options, binding: Option<Binding>) -> Vec<(Binding, Vec<Finding>)> {
    let all = probe_within(BOUNDS, url, options, binding).await;
    all.into_iter().map(|(binding, findings)| (binding, findings.unwrap())).collect()
}

async fn probe_within(
    bounds: Bounds,
    url: &str,
    options: &Options,
    binding: Option<Binding>,
) -> Vec<(Binding, Result<Vec<Finding>, String>)> {
    let client = Client::new(bounds, Trust::System, Wire::Either).unwrap();
    let url = Typed::read(url).unwrap();
    let found = probe::resolve(&client, &url, &options.credentials, binding, Follow::No).await.unwrap();
    let sessions: Vec<Session<'_>> = found
        .interfaces
        .iter()
        .map(|interface| Session::new(&client, interface, interface.twin(&found.interfaces), options))
        .collect();
    let played = probe::run(&sessions, |_| {}).await;
    found.interfaces.iter().map(|interface| interface.binding).zip(played).collect()
}

fn of(findings: &[Finding], verdict: Verdict) -> Vec<(&str, &str)> {
    let those = findings.iter().filter(|finding| finding.verdict == verdict);
    those.map(|finding| (finding.check.id, finding.reason.as_str())).collect()
}

#[tokio::test]
async fn the_model_host_passes_every_check_and_no_task_is_created() {
    let host = ModelHost::start(None).await.unwrap();
    let all = probe(&format!("http://{}", host.address()), &options(), None).await;
    assert_eq!(all.len(), 2);
    for (binding, findings) in &all {
        assert_eq!(of(findings, Verdict::Fail), [], "{binding:?}");
        assert_eq!(findings.len(), CHECKS.len());
        let notes: Vec<_> = findings.iter().flat_map(|finding| &finding.notes).collect();
        assert!(notes.is_empty(), "{notes:?}");
        let none: Vec<&str> = of(findings, Verdict::NotApplicable).into_iter().map(|(id, _)| id).collect();
        let expected = if *binding == Binding::JsonRpc { "twins" } else { "id-echo" };
        assert_eq!(none, [expected], "every other check applies");
    }
    assert_eq!(host.created(), 0);
}

/// What turns red, over JSON-RPC and over HTTP+JSON, and a part of the reason; `""`: stays green.
fn expected(sabotage: Sabotage) -> (&'static [&'static str], &'static str, &'static str) {
    use Sabotage as S;
    match sabotage {
        S::DataObject => (&["unknown-task"], "error.data is an object", "error.details is an object"),
        S::DataEmpty => (&["unknown-task", "members"], "error.data is ", "error.details is "),
        S::ReasonSpelling => {
            (&["unknown-task"], r#"reason is "TaskNotFound""#, r#"reason is "TaskNotFound""#)
        }
        S::WrongDomain => (&["unknown-task"], r#"domain is "example.com""#, r#"domain is "example.com""#),
        S::CancelUnknown => {
            (&["unknown-cancel"], "-32602 instead of -32001", "400 instead of 404 TASK_NOT_FOUND")
        }
        S::ForeignStatus => (
            &["foreign-task"],
            "GetTask: HTTP 403 instead of 200; header etag only on the foreign task's; the body differs",
            "GetTask: HTTP 403 instead of 404; header etag only on the foreign task's; the body differs",
        ),
        S::ForeignMetadata => {
            (&["foreign-task"], "GetTask: the body differs from byte", "GetTask: the body differs from byte")
        }
        S::ForeignHeader => (
            &["foreign-task"],
            "GetTask: header vary only on the foreign task's",
            "GetTask: header vary only on the foreign task's",
        ),
        S::ForeignPhrase => (
            &["foreign-task"],
            r#"GetTask: reason phrase "Hidden" instead of "OK""#,
            r#"GetTask: reason phrase "Hidden" instead of "Not Found""#,
        ),
        S::ForeignFraming => (
            &["foreign-task"],
            "GetTask: framing: chunks instead of Content-Length",
            "GetTask: framing: chunks instead of Content-Length",
        ),
        S::ForeignOrder => (
            &["foreign-task"],
            "GetTask: the headers come in another order",
            "GetTask: the headers come in another order",
        ),
        S::ForeignSpelling => (
            &["foreign-task"],
            "GetTask: header cache-control is written Cache-control instead of Cache-Control",
            "GetTask: header cache-control is written Cache-control instead of Cache-Control",
        ),
        S::ForeignTrailer => (
            &["foreign-task"],
            "GetTask: trailer x-checked only on the foreign task's",
            "GetTask: trailer x-checked only on the foreign task's",
        ),
        S::ForeignCut => (
            &["foreign-task"],
            "the foreign task's answer is cut short: ",
            "the foreign task's answer is cut short: ",
        ),
        S::ForeignTime => {
            (&["foreign-time"], "time tells a foreign task from an unknown one: 20 pairs", "time tells")
        }
        S::CancelFinished => (&["cancel-finished"], "a success instead of an error", "a success instead"),
        S::MalformedHtml => (&["malformed-json"], "HTTP 400 with HTML", "HTTP 400 with HTML"),
        S::MalformedId => {
            (&["malformed-json"], "the id is absent instead of null", r#"error.message is "", no text"#)
        }
        S::MalformedCut => (
            &["malformed-json"],
            "malformed JSON: the answer is cut short: ",
            "malformed JSON: the answer is cut short: ",
        ),
        S::MalformedInternal => (
            &["malformed-json"],
            "-32603 for malformed JSON instead of -32700",
            "500 for malformed JSON instead of 400",
        ),
        S::NonObjectText => (&["non-object-json"], "the body []: HTTP 400 with text", "HTTP 400 with text"),
        S::UnknownMethodTask => (
            &["unknown-method"],
            "TASK_NOT_FOUND for a method that does not exist",
            r#"error.message is "", no text"#,
        ),
        S::ParamsReason => {
            (&["invalid-params"], "-32602 carries an A2A reason", "not an array of typed details")
        }
        S::ContentTypeText => (&["wrong-content-type"], "HTTP 415 with text", "HTTP 415 with text"),
        S::OversizedHtml => (&["oversized-body"], "HTTP 413 with HTML", "HTTP 413 with HTML"),
        S::CredentialJson => (
            &["no-credential"],
            r#"HTTP 401 with JSON without "jsonrpc": "2.0""#,
            "HTTP 401 with a JSON object, no google.rpc.Status",
        ),
        S::VersionCode => (&["bad-version"], "-32600 instead of -32009", "error.details is absent"),
        S::VersionIgnored => (&["bad-version"], "as if it offered it", "as if it offered it"),
        S::VersionsArray => (
            &["supported-versions"],
            r#"supportedVersions is ["1.0"], no comma-joined text"#,
            r#"supportedVersions is ["1.0"]"#,
        ),
        S::VersionsMore => (
            &["supported-versions"],
            r#"lists "0.3", the card only 1.0"#,
            r#"lists "0.3", the card only 1.0"#,
        ),
        S::PushInternal => {
            (&["push-operations"], "-32603 instead of PUSH_NOTIFICATION_NOT_SUPPORTED", "500 instead of PUSH")
        }
        S::CardMethod => (
            &["extended-card"],
            "-32601 instead of EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            "404 instead of EXTE",
        ),
        S::StreamBare => (&["stream-error"], "error.data is absent", "error.details is absent"),
        S::IdDouble => (&["id-echo"], "9007199254740993 comes back as 9007199254740992.0", ""),
        S::IdString => (&["id-echo"], r#"1 comes back as "1""#, ""),
        S::TwinReason => {
            (&["twins"], "", "PUSH_NOTIFICATION_NOT_SUPPORTED over JSONRPC, TASK_NOT_FOUND here")
        }
        S::IdNull => (&["id-echo"], "a method that does not exist: 7 comes back as null", ""),
        S::Envelope => (
            &["no-credential", "no-envelope"],
            "HTTP 401 with an OpenWOP error envelope (unauthenticated)",
            "HTTP 401 with an OpenWOP error envelope (unauthenticated)",
        ),
        S::MediaType => (&["content-type"], r#"an error as "text/plain""#, r#"an error as "text/plain""#),
        S::Charset => (
            &["content-type"],
            r#"an error as application/json with the parameter "charset=iso-8859-1""#,
            r#"an error as application/json with the parameter "charset=iso-8859-1""#,
        ),
        S::StatusOfError => (
            &["http-status"],
            "HTTP 404 with -32001 TASK_NOT_FOUND: clients read a JSON-RPC error at 200",
            "HTTP 200 with 404 TASK_NOT_FOUND where it is 404",
        ),
        S::DebugInfo => (&["details"], "google.rpc.DebugInfo", "google.rpc.DebugInfo"),
        // On "not found" there is nothing but the one ErrorInfo (O-1).
        S::DetailOwner => (
            &["details"],
            r#"google.rpc.QuotaFailure that may not be there: {"@type":"#,
            r#"google.rpc.QuotaFailure that may not be there: {"@type":"#,
        ),
        S::DetailText => (
            &["details"],
            r#"google.rpc.RetryInfo that may not be there: {"@type":"#,
            r#"google.rpc.RetryInfo that may not be there: {"@type":"#,
        ),
        S::ExtraMember => (
            &["members"],
            r#"a member "error.method" that the shape has not"#,
            r#"a member "error.method" that the shape has not"#,
        ),
        S::NullDetails => (
            &["members"],
            "error.data is null where it must be absent",
            "error.details is null where it must be absent",
        ),
        S::StatusWord => (&["members"], "", r#"status is "UNKNOWN" where 405 has NOT_FOUND"#),
        S::MetadataTask => (
            &["metadata"],
            "the id of a task that was not asked about",
            "the id of a task that was not asked about",
        ),
        S::MessageOwner => {
            (&["messages"], "a message with a word that names somebody", "a word that names somebody")
        }
        S::MetadataNumber => {
            (&["metadata"], "metadata.attempt is 3, no string", "metadata.attempt is 3, no string")
        }
        S::MessagePath => (&["messages"], "a message with a path", "a message with a path"),
        S::Cookie => {
            (&["headers"], "header set-cookie on TASK_NOT_FOUND", "header set-cookie on TASK_NOT_FOUND")
        }
        S::OwnerHeader => {
            (&["headers"], "header task-owner on TASK_NOT_FOUND", "header task-owner on TASK_NOT_FOUND")
        }
    }
}

macro_rules! sabotage_tests {
    ($($name:ident: $sabotage:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            turns_its_check_red(Sabotage::$sabotage).await;
        })*
        const TESTED: &[Sabotage] = &[$(Sabotage::$sabotage),*];
    };
}

sabotage_tests! {
    data_object: DataObject;
    data_empty: DataEmpty;
    reason_spelling: ReasonSpelling;
    wrong_domain: WrongDomain;
    cancel_unknown: CancelUnknown;
    foreign_status: ForeignStatus;
    foreign_metadata: ForeignMetadata;
    foreign_header: ForeignHeader;
    foreign_phrase: ForeignPhrase;
    foreign_framing: ForeignFraming;
    foreign_order: ForeignOrder;
    foreign_spelling: ForeignSpelling;
    foreign_trailer: ForeignTrailer;
    foreign_cut: ForeignCut;
    foreign_time: ForeignTime;
    cancel_finished: CancelFinished;
    malformed_html: MalformedHtml;
    malformed_id: MalformedId;
    malformed_cut: MalformedCut;
    malformed_internal: MalformedInternal;
    non_object_text: NonObjectText;
    unknown_method_task: UnknownMethodTask;
    params_reason: ParamsReason;
    content_type_text: ContentTypeText;
    oversized_html: OversizedHtml;
    credential_json: CredentialJson;
    version_code: VersionCode;
    version_ignored: VersionIgnored;
    versions_array: VersionsArray;
    versions_more: VersionsMore;
    push_internal: PushInternal;
    card_method: CardMethod;
    stream_bare: StreamBare;
    id_double: IdDouble;
    id_string: IdString;
    twin_reason: TwinReason;
    id_null: IdNull;
    envelope: Envelope;
    media_type: MediaType;
    charset: Charset;
    status_of_error: StatusOfError;
    debug_info: DebugInfo;
    detail_owner: DetailOwner;
    detail_text: DetailText;
    extra_member: ExtraMember;
    null_details: NullDetails;
    status_word: StatusWord;
    metadata_number: MetadataNumber;
    metadata_task: MetadataTask;
    message_owner: MessageOwner;
    message_path: MessagePath;
    cookie: Cookie;
    owner_header: OwnerHeader;
}

/// A check that nothing can turn red is none, and a sabotage without a test may do nothing.
#[test]
fn every_check_has_a_sabotage_and_every_sabotage_a_test() {
    assert_eq!(TESTED, Sabotage::ALL);
    let broken: HashSet<&str> = Sabotage::ALL.iter().flat_map(|one| expected(*one).0).copied().collect();
    let checks: HashSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(broken, checks);
}

async fn turns_its_check_red(sabotage: Sabotage) {
    let host = ModelHost::start(Some(sabotage)).await.unwrap();
    let all = probe(&format!("http://{}", host.address()), &options(), None).await;
    let (checks, json_rpc, http_json) = expected(sabotage);
    for (binding, findings) in &all {
        let reason = if *binding == Binding::JsonRpc { json_rpc } else { http_json };
        let failed = of(findings, Verdict::Fail);
        let ids: Vec<&str> = failed.iter().map(|(id, _)| *id).collect();
        let wanted = if reason.is_empty() { &[] } else { checks };
        assert_eq!(ids, wanted, "{binding:?}: {failed:?}");
        for (id, why) in failed {
            assert!(why.contains(reason), "{binding:?} {id}: {why:?} does not say {reason:?}");
        }
    }
    assert_eq!(host.created(), 0, "a task was created");
}

#[tokio::test]
async fn a_task_is_created_only_if_that_is_allowed() {
    let host = ModelHost::start(None).await.unwrap();
    let url = format!("http://{}", host.address());
    let without = Options { task: None, ..options() };
    for (_, findings) in probe(&url, &without, None).await {
        let none = of(&findings, Verdict::NotApplicable);
        let why = none.iter().find(|(id, _)| *id == "cancel-finished").expect("not applicable").1;
        assert!(why.contains("--allow-create"), "{why}");
    }
    assert_eq!(host.created(), 0);
    let allowed = Options { task: None, allow_create: true, ..options() };
    for (binding, findings) in probe(&url, &allowed, None).await {
        assert_eq!(of(&findings, Verdict::Fail), [], "{binding:?}");
        assert!(of(&findings, Verdict::Pass).iter().any(|(id, _)| *id == "cancel-finished"));
    }
    assert_eq!(host.created(), 2, "one an interface");
}

/// Without a credential and without ids there is still something to say, and nothing that is not.
#[tokio::test]
async fn what_was_not_given_is_not_applicable() {
    let host = ModelHost::start(None).await.unwrap();
    let url = format!("http://{}/a2a", host.address());
    let nothing = Options { pairs: 20, oversize: 2 << 20, ..Options::default() };
    let all = probe(&url, &nothing, None).await;
    assert_eq!(all.len(), 1, "an interface's URL means that one");
    let none = of(&all[0].1, Verdict::NotApplicable);
    for id in ["foreign-task", "foreign-time", "cancel-finished"] {
        assert!(none.iter().any(|(known, _)| *known == id), "{id}: {none:?}");
    }
}

fn legacy_options() -> Options {
    Options {
        credentials: HeaderMap::new(),
        task: Some(FINISHED.to_owned()),
        foreign: Some(FOREIGN.to_owned()),
        ..options()
    }
}

#[tokio::test]
async fn the_legacy_host_fails_what_it_should() {
    let host = LegacyHost::start().await.unwrap();
    let all = probe(&format!("http://{}", host.address()), &legacy_options(), None).await;
    let failed = of(&all[0].1, Verdict::Fail);
    let ids: Vec<&str> = failed.iter().map(|(id, _)| *id).collect();
    assert_eq!(
        ids,
        [
            "unknown-task",
            "unknown-cancel",
            "foreign-task",
            "cancel-finished",
            "malformed-json",
            "non-object-json",
            "unknown-method",
            "invalid-params",
            "wrong-content-type",
            "oversized-body",
            "bad-version",
            "push-operations",
            "extended-card",
            "stream-error",
            "no-envelope",
        ]
    );
    let asks_for_none = ("no-credential", "the host asks for no credential");
    assert!(of(&all[0].1, Verdict::NotApplicable).contains(&asks_for_none));
    let rest = format!("http://{}/rest", host.address());
    let all = probe(&rest, &legacy_options(), Some(Binding::HttpJson)).await;
    let failed = of(&all[0].1, Verdict::Fail);
    let ids: Vec<&str> = failed.iter().map(|(id, _)| *id).collect();
    assert_eq!(
        ids,
        [
            "unknown-task",
            "unknown-cancel",
            "foreign-task",
            "cancel-finished",
            "malformed-json",
            "non-object-json",
            "unknown-method",
            "invalid-params",
            "wrong-content-type",
            "oversized-body",
            "bad-version",
            "push-operations",
            "extended-card",
            "stream-error",
            "no-envelope",
        ]
    );
    assert!(of(&all[0].1, Verdict::NotApplicable).contains(&asks_for_none));
}

/// The same host, behind the proxy: nothing fails, over either binding, and no less applies.
#[tokio::test]
async fn behind_the_proxy_the_legacy_host_passes() {
    let host = LegacyHost::start().await.unwrap();
    let proxy = support::Proxy::start_with(support::settings(&[host.address()]));
    let base = format!("http://{}", proxy.address);
    for (url, binding) in [(base.clone(), None), (format!("{base}/rest"), Some(Binding::HttpJson))] {
        let all = probe(&url, &legacy_options(), binding).await;
        let findings = &all[0].1;
        assert_eq!(of(findings, Verdict::Fail), [], "{url}");
        // The host asks for no credential, and the other binding has what this one has not.
        let other = if binding.is_some() {
            &["no-credential", "id-echo", "twins"][..]
        } else {
            &["no-credential", "twins"]
        };
        let none: Vec<&str> = of(findings, Verdict::NotApplicable).into_iter().map(|(id, _)| id).collect();
        assert_eq!(none, other, "{url}");
    }
}
