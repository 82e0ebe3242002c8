//! The forms of the command line, held together.

use super::*;
use clap::CommandFactory;

#[test]
fn the_forms_are_consistent() {
    Args::command().debug_assert();
}

#[test]
fn the_help_names_nothing_that_does_not_exist_yet() {
    let mut command = Args::command();
    for sub in command.get_subcommands_mut() {
        let help = sub.render_long_help().to_string();
        let absent = "rules";
        assert!(!help.contains(absent), "`triune {} --help` names {absent}", sub.get_name());
    }
}
