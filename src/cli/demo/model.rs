//! `demo --model`: the host that does everything right but for one thing, for trying `probe`.

use std::process::ExitCode;

use super::{alone, complain};
use crate::cli::output;
use crate::cli::screen::{Ink, Screen};
use crate::demo::{CREDENTIAL, ModelHost, OWN_TASK, Sabotage, THEIR_TASK};

/// Runs until a signal comes.
pub fn run(screen: Screen, sabotage: Option<&str>) -> ExitCode {
    if sabotage == Some("list") {
        let lines = Sabotage::ALL.iter().map(|one| format!("{:<20} {}\n", one.id(), one.does()));
        return output::print(lines.collect::<String>().as_bytes(), ExitCode::SUCCESS);
    }
    let chosen = sabotage.map(|name| Sabotage::ALL.iter().find(|one| one.id() == name).copied());
    if chosen == Some(None) {
        let name = sabotage.unwrap_or_default();
        let near = |one: &&Sabotage| strsim::jaro_winkler(one.id(), name);
        let nearest = Sabotage::ALL.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
        let meant = nearest.filter(|one| near(one) > 0.8);
        let meant = meant.map_or_else(String::new, |one| format!("; did you mean {}?", one.id()));
        complain(&format!(
            "no sabotage has such a name{meant} (`a2a-errata demo --model --sabotage list` names them)"
        ));
        return ExitCode::from(2);
    }
    let chosen = chosen.flatten();
    alone(ModelHost::start(chosen), |host| {
        let does = chosen.map_or_else(|| "does everything right".to_owned(), |one| one.does().to_owned());
        let token = CREDENTIAL.trim_start_matches("Bearer ");
        let probe = format!(
            "a2a-errata probe http://{} --bearer {token} --task {OWN_TASK} --foreign-task {THEIR_TASK}",
            host.address()
        );
        format!("The model host: {does}. Try\n\n  {}\n\nCtrl-C ends it.\n", screen.paint(Ink::Bold, &probe))
    })
}
