//! The status page: the report for people. Rendered here, without scripts, so that every number is there
//! in any browser; everything shown comes from the report (D-4).

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, html};

use super::access;
use super::certificates::SOON_DAYS;
use super::groups::{Address, AddressState};
use super::removal::{Removal, span};
use super::report::{Host, Interface, Report};
use super::trend::Minute;

/// The page's only style sheet.
pub const STYLE: &str = include_str!("page.css");

/// Seconds between two loads when the page was asked to keep itself fresh.
const REFRESH: u32 = 15;

/// What the page was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub clean_days: u32,
    pub refresh: bool,
}

/// The whole page.
#[must_use]
pub fn render(report: &Report, options: Options) -> String {
    let needed = report.hosts.iter().filter(|host| !host.can_go).count();
    let title = match (needed, report.hosts.len()) {
        (0, _) => "every shim can go".to_owned(),
        (n, 1) if n > 0 => "still needed".to_owned(),
        (n, all) => format!("{n} of {all} hosts still need it"),
    };
    let (days, other) = (options.clean_days, if options.refresh { "0" } else { "1" });
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if options.refresh { meta http-equiv="refresh" content=(REFRESH); }
                title { "a2a-errata: " (title) }
                link rel="stylesheet" href="style.css";
            }
            body {
                a.skip href="#hosts" { "Skip to the hosts" }
                header {
                    div {
                        h1 { "a2a-errata" }
                        p.muted {
                            "Version " (report.version) ", up for " (span(report.now - report.started))
                            ", as of " (time(report.now)) ". Numbers are since the start."
                        }
                    }
                    nav aria-label="Pages" {
                        ul {
                            li { a href="report" { "Report (JSON)" } }
                            li { a href="config" { "Configuration" } }
                            li { a href="metrics" { "Metrics" } }
                            li { a href="readyz?verbose" { "Readiness" } }
                            li { a href={ "?days=" (days) "&refresh=" (other) } {
                                @if options.refresh { "Stop refreshing" } @else { "Refresh every " (REFRESH) " s" }
                            } }
                        }
                    }
                }
                main #hosts {
                    (configuration(report))
                    (certificates(report))
                    (overview(report))
                    @for (n, host) in report.hosts.iter().enumerate() { (section(n, host, report.now)) }
                }
                footer {
                    p.muted {
                        "A shim can go from a host once its interfaces are known and, for " (days)
                        " days, each was watched, nothing was repaired, and errors were seen that were right as the \
                         host gave them. Counts begin anew with the process: "
                        code { "a2a-errata report --prometheus" } " looks further back."
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Only what is wrong: that the configuration on disk is not the one in effect.
fn configuration(report: &Report) -> Markup {
    let configuration = &report.configuration;
    html! {
        @if let Some(refused) = &configuration.refused {
            section aria-labelledby="refused" {
                div.title {
                    h2 id="refused" { "Configuration" }
                    span.badge.bad { "not reloaded" }
                    span.muted { "the one of " (time(configuration.loaded)) " is in effect" }
                }
                p { "What was read " (span(report.now - refused.at)) " ago, " (time(refused.at)) ", was refused:" }
                ul { @for problem in &refused.says { li { code { (problem) } } } }
            }
        }
    }
}

/// Which certificates are in effect and for how long; which files were not taken.
fn certificates(report: &Report) -> Markup {
    let known = &report.certificates;
    let left = |expires: i64| expires - report.now;
    html! {
        @if !known.refused.is_empty() {
            section aria-labelledby="refused-files" {
                div.title {
                    h2 id="refused-files" { "Certificate files" }
                    span.badge.bad { "not taken" }
                    span.muted { "those before are in effect" }
                }
                ul { @for file in &known.refused {
                    li { code { (file.key) " = \"" (file.path) "\"" } " " (file.says) ", since " (time(file.at)) }
                } }
            }
        }
        @if !known.in_effect.is_empty() {
            section aria-labelledby="certificates" {
                div.title { h2 id="certificates" { "Certificates" } }
                div.scroll role="region" aria-label="Certificates in effect" tabindex="0" {
                    table {
                        caption { "In effect" }
                        thead { tr {
                            th scope="col" { "For" }
                            th scope="col" { "Key" }
                            th scope="col" { "Ends" }
                            th scope="col" { "Verdict" }
                        } }
                        tbody { @for one in &known.in_effect { tr {
                            th scope="row" { @if one.host.is_empty() { "clients" } @else { (one.host) } }
                            td { code { (one.key) } }
                            td { (time(one.expires)) }
                            td {
                                @match left(one.expires) {
                                    ..=0 => span.badge.bad { "has expired" },
                                    left if left <= SOON_DAYS * 86_400 => {
                                        span.badge.warn { "expires in " (span(left)) }
                                    },
                                    _ => span.badge.good { "valid" },
                                }
                            }
                        } } }
                    }
                }
            }
        }
    }
}

fn overview(report: &Report) -> Markup {
    html! {
        div.scroll role="region" aria-label="Overview of all interfaces" tabindex="0" {
            table {
                caption { "Overview" }
                thead { tr {
                    th scope="col" { "Host" }
                    th scope="col" { "Interface" }
                    th scope="col" { "Mode" }
                    th.n scope="col" { "Passed" }
                    th.n scope="col" { "Already right" }
                    th.n scope="col" { "Repaired" }
                    th scope="col" { "Clean since" }
                    th scope="col" { "Verdict" }
                } }
                tbody {
                    @for (h, host) in report.hosts.iter().enumerate() {
                        @for (i, interface) in host.interfaces.iter().enumerate() {
                            tr {
                                th scope="row" { a href={ "#h" (h) } { (host.name) } }
                                td { a href={ "#h" (h) "i" (i) } { (name(interface)) } }
                                td { (mode(interface)) }
                                td.n { (interface.count("passed")) }
                                td.n { (interface.right_errors) }
                                td.n { (interface.repairs) }
                                td { (time(interface.removal.clean_since)) }
                                td { (verdict(&interface.removal)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn section(n: usize, host: &Host, now: i64) -> Markup {
    let id = format!("h{n}");
    html! {
        section aria-labelledby=(id) {
            div.title {
                h2 id=(id) { (host.name) }
                @if host.ready {
                    span.badge.good { "ready" }
                } @else {
                    span.badge.bad { "not ready" }
                }
                @if host.can_go {
                    span.badge.good { "this shim can go" }
                } @else {
                    span.badge { "shim still needed" }
                }
                @if let Some(age) = host.card_age {
                    span.muted { "agent card read " (span(whole(age))) " ago" }
                } @else if host.ready {
                    span.muted { "interfaces from the configuration" }
                } @else {
                    span.muted { (not_ready(host)) }
                }
            }
            (addresses(&host.name, &host.addresses))
            @for (i, one) in host.interfaces.iter().enumerate() { (article(&format!("{id}i{i}"), one, now)) }
        }
    }
}

/// Why a host without a card of its own is not ready.
fn not_ready(host: &Host) -> &'static str {
    let can_be_used = |address: &Address| match address.state {
        AddressState::Healthy | AddressState::Ejected => true,
        AddressState::Unhealthy | AddressState::Draining => false,
    };
    if host.addresses.is_empty() || host.addresses.iter().any(can_be_used) {
        "no agent card could be used yet: every POST that is an A2A call is repaired"
    } else {
        "none of its addresses can be used"
    }
}

/// Where the host is, if that says anything: there are several, or the one is not all right.
fn addresses(host: &str, all: &[Address]) -> Markup {
    let says_something = all.len() > 1 || all.iter().any(|one| one.state != AddressState::Healthy);
    html! {
        @if says_something {
            div.sideways role="region" aria-label={ "Addresses of " (host) } tabindex="0" {
                table.wide {
                    caption { "Addresses" }
                    thead { tr {
                        th scope="col" { "Upstream" } th scope="col" { "Address" } th scope="col" { "State" }
                        th.n scope="col" { "Weight" } th.n scope="col" { "Under way" }
                    } }
                    tbody {
                        @for one in all {
                            tr {
                                th scope="row" { (one.upstream) }
                                td { (one.address) }
                                td { (state(one.state)) }
                                td.n { (one.weight) }
                                td.n { (one.in_flight) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn state(state: AddressState) -> Markup {
    html! {
        @match state {
            AddressState::Healthy => span.badge.good { "healthy" },
            AddressState::Unhealthy => span.badge.bad { "unhealthy" },
            AddressState::Ejected => span.badge.warn { "ejected" },
            AddressState::Draining => span.badge { "draining" },
        }
    }
}

fn article(id: &str, interface: &Interface, now: i64) -> Markup {
    html! {
        article aria-labelledby=(id) {
            div.title {
                h3 id=(id) { (name(interface)) }
                @if interface.is_interface() { span.badge { (interface.binding) } }
                (mode(interface))
                span.muted { "for " (span(now - interface.mode_since)) }
            }
            @if interface.is_idle() {
                p { "Nothing came yet, watched for " (span(now - interface.since)) "." }
                (removal(interface, now))
            } @else {
                (trend(id, &interface.last_hour))
                div.grid {
                    (outcomes(interface))
                    (removal(interface, now))
                    (rules(interface))
                    (counts("What was dropped", "Kind", &interface.dropped))
                    (counts("Errors that clients saw", "Reason", &interface.faults))
                    (counts("Became “not found”", "It was", &interface.collapsed))
                    (counts("The host's side failed", "How", &interface.upstream_failures))
                }
            }
        }
    }
}

fn outcomes(interface: &Interface) -> Markup {
    let doing = |enforced: &'static str, observed: &'static str| {
        if interface.mode == "observe" { observed } else { enforced }
    };
    let rows = [
        ("passed", "Passed untouched"),
        ("conformant", "Errors already right"),
        ("rewritten", doing("Errors rewritten", "Errors that would be rewritten")),
        ("overflow", doing("Replaced for their size", "Would be replaced for their size")),
        ("synthesized", "Answered by the proxy: the host failed"),
        ("refused", "Requests refused by the proxy"),
    ];
    html! {
        table {
            caption { "Answers" }
            thead { tr { th scope="col" { "What became of them" } th.n scope="col" { "Number" } } }
            tbody {
                @for (outcome, says) in rows {
                    tr { th scope="row" { (says) } td.n data-outcome=(outcome) { (interface.count(outcome)) } }
                }
            }
        }
    }
}

fn rules(interface: &Interface) -> Markup {
    let caption =
        if interface.mode == "observe" { "Rules that would have acted" } else { "Rules that acted" };
    html! {
        @if !interface.rules.is_empty() {
            table.wide {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "Rule" } th scope="col" { "What it is" } th.n scope="col" { "Number" }
                } }
                tbody {
                    @for rule in &interface.rules {
                        tr { th scope="row" { (rule.rule) } td { (rule.says) } td.n { (rule.count) } }
                    }
                }
            }
        }
    }
}

/// A table of names and numbers, if there is any.
fn counts(caption: &str, of: &str, counts: &BTreeMap<String, u64>) -> Markup {
    html! {
        @if !counts.is_empty() {
            table {
                caption { (caption) }
                thead { tr { th scope="col" { (of) } th.n scope="col" { "Number" } } }
                tbody {
                    @for (name, count) in counts {
                        tr { th scope="row" { (name) } td.n { (count) } }
                    }
                }
            }
        }
    }
}

fn removal(interface: &Interface, now: i64) -> Markup {
    let removal = &interface.removal;
    html! {
        div.removal {
            h4 { "Can this shim go?" }
            p {
                (verdict(removal)) " "
                @if let Some(last) = interface.last_rewrite {
                    "Last rewritten " (span(now - last)) " ago, " (time(last)) ". "
                } @else {
                    "Nothing was rewritten yet. "
                }
                @if removal.can_go {
                    "Clean for " (span(removal.clean_seconds)) ": this shim can go."
                }
            }
            ul.criteria {
                @for criterion in &removal.criteria {
                    li class=(if criterion.holds { "holds" } else { "fails" }) {
                        span aria-hidden="true" { (if criterion.holds { "✓" } else { "✗" }) } " "
                        span.sr { (if criterion.holds { "Holds: " } else { "Does not hold: " }) }
                        (criterion.says)
                    }
                }
            }
        }
    }
}

fn name(interface: &Interface) -> &str {
    match interface.interface.as_str() {
        "other" if !interface.is_interface() => "other URLs",
        "unknown" if !interface.is_interface() => "calls while no interface is known",
        path => path,
    }
}

fn mode(interface: &Interface) -> Markup {
    html! {
        @match interface.mode.as_str() {
            "observe" => span.badge.warn { "observed" },
            _ => span.badge { "enforced" },
        }
    }
}

fn verdict(removal: &Removal) -> Markup {
    html! {
        @if removal.can_go { span.badge.good { "can go" } } @else { span.badge { "still needed" } }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an age; what is cut off is less than a second")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}

/// A point in time that machines read too.
fn time(unix: i64) -> Markup {
    let text = access::utc(unix);
    let shown = text.get(..16).unwrap_or(&text).replace('T', " ");
    html! { time datetime=(text) { (shown) " UTC" } }
}

/// Pixels of the chart's own coordinates.
const BAR: usize = 8;
const HEIGHT: u64 = 64;

/// Stacked bars, a minute each. The caption and the table below say the same in words and numbers.
fn trend(id: &str, minutes: &[Minute]) -> Markup {
    let total = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
    let (passed, rewritten, own) = (total(|m| m.passed), total(|m| m.rewritten), total(|m| m.own));
    let all = |minute: &Minute| minute.passed + minute.rewritten + minute.own;
    let most = minutes.iter().map(all).max().unwrap_or_default();
    let busy: Vec<&Minute> = minutes.iter().filter(|minute| all(minute) > 0).collect();
    let width = (minutes.len().max(61)) * BAR;
    // The youngest minute stands at the right end.
    let offset = width - minutes.len() * BAR;
    // What is there at all can be seen.
    let height = |number: u64| {
        if number == 0 { 0 } else { (number * HEIGHT).checked_div(most).unwrap_or_default().max(2) }
    };
    html! {
        figure {
            figcaption {
                "Last hour: "
                span.key.passed { (passed) " passed" } " "
                span.key.rewritten { (rewritten) " rewritten" } " "
                span.key.own { (own) " by the proxy" } " "
                span.muted { "Busiest minute: " (most) }
            }
            svg viewBox={ "0 0 " (width) " " (HEIGHT + 4) } preserveAspectRatio="none" role="img"
                aria-labelledby={ (id) "t" } {
                title id={ (id) "t" } {
                    "Answers per minute over the last hour, " (passed) " passed, " (rewritten) " rewritten, "
                    (own) " by the proxy"
                }
                line.axis x1="0" x2=(width) y1=(HEIGHT + 3) y2=(HEIGHT + 3) {}
                @for (n, minute) in minutes.iter().enumerate() {
                    @let x = offset + n * BAR + 1;
                    @let passed = height(minute.passed);
                    @let rewritten = height(minute.rewritten);
                    @let own = height(minute.own);
                    (bar("passed", x, HEIGHT + 2, passed))
                    (bar("rewritten", x, HEIGHT + 2 - passed.min(HEIGHT), rewritten))
                    (bar("own", x, HEIGHT + 2 - (passed + rewritten).min(HEIGHT), own))
                }
            }
            @if !busy.is_empty() {
                details {
                    summary { "Numbers behind the chart" }
                    table {
                        caption { "Answers per minute, minutes without any left out" }
                        thead { tr {
                            th scope="col" { "Minute" } th.n scope="col" { "Passed" }
                            th.n scope="col" { "Rewritten" } th.n scope="col" { "By the proxy" }
                        } }
                        tbody { @for minute in busy { tr {
                            th scope="row" { (time(minute.start)) }
                            td.n { (minute.passed) } td.n { (minute.rewritten) } td.n { (minute.own) }
                        } } }
                    }
                }
            }
        }
    }
}

fn bar(class: &str, x: usize, bottom: u64, height: u64) -> Markup {
    html! {
        @if height > 0 {
            rect class=(class) x=(x) y=(bottom.saturating_sub(height)) width=(BAR - 2) height=(height) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::{Binding, Mode, Outcome, Verdict};
    use crate::observe::{Finished, Metrics, Readiness, report};

    fn page(host: &str, mode: Mode, days: u32) -> String {
        let metrics = Metrics::new();
        let lane = metrics.lane(host, "/a2a", Some(Binding::JsonRpc), mode);
        let outcome = Outcome { verdict: Verdict::Conformant, ..Outcome::default() };
        lane.finished(&Finished {
            status: 200,
            outcome: Some(&outcome),
            stream: false,
            upstream: std::time::Duration::ZERO,
            added: std::time::Duration::ZERO,
        });
        let readiness = Readiness::new([(host.to_owned(), true)]);
        let report = report::make(&metrics, &readiness, days);
        render(&report, Options { clean_days: days, refresh: false })
    }

    #[test]
    fn the_page_has_no_scripts_and_loads_nothing_from_elsewhere() {
        let page = page("legacy", Mode::Enforce, 14);
        for word in ["<script", "javascript:", "http://", "https://", "style=\"", " onload", " onclick"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert!(!page("<b>&", Mode::Enforce, 14).contains("<b>"));
    }

    #[test]
    fn it_says_what_is_observed_and_when_the_shim_can_go() {
        let observed = page("legacy", Mode::Observe, 14);
        assert!(observed.contains(">observed<") && observed.contains("would be rewritten"), "{observed}");
        assert!(observed.contains("shim still needed"), "{observed}");
        let clean = page("legacy", Mode::Enforce, 0);
        assert!(clean.contains("this shim can go"), "{clean}");
    }

    #[test]
    fn a_refused_reload_is_shown_with_its_reasons() {
        let metrics = Metrics::new();
        let readiness = Readiness::new([("legacy".to_owned(), true)]);
        let shown = || {
            let report = report::make(&metrics, &readiness, 14);
            render(&report, Options { clean_days: 14, refresh: false })
        };
        assert!(!shown().contains("not reloaded"));
        metrics.reloaded(Some(vec!["a.toml:3:1: hosts[0].mode: <no>".into()]));
        assert!(
            shown().contains("not reloaded") && shown().contains("a.toml:3:1: hosts[0].mode: &lt;no&gt;")
        );
        metrics.reloaded(None);
        assert!(!shown().contains("not reloaded"));
    }

    #[test]
    fn addresses_are_shown_where_they_say_something() {
        let address = |state, in_flight| Address {
            upstream: "agents.example:9000".into(),
            address: "10.0.0.1:9000".into(),
            state,
            weight: 3,
            in_flight,
        };
        let well = address(AddressState::Healthy, 0);
        assert_eq!(addresses("legacy", std::slice::from_ref(&well)).into_string(), "");
        let shown = addresses("legacy", &[well, address(AddressState::Ejected, 7)]).into_string();
        for word in ["agents.example:9000", "10.0.0.1:9000", ">healthy<", ">ejected<", ">7<", ">3<"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert!(!addresses("legacy", &[address(AddressState::Unhealthy, 0)]).into_string().is_empty());
    }

    #[test]
    fn what_is_there_at_all_is_drawn() {
        let minutes = [
            Minute { start: 0, passed: 100_000, rewritten: 1, own: 1 },
            Minute { start: 60, ..Minute::default() },
        ];
        let chart = trend("x", &minutes).into_string();
        assert_eq!(chart.matches("<rect").count(), 3, "{chart}");
    }
}
