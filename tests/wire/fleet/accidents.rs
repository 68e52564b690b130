//! The accidents that docs/fleet.md names, and the tests that cause them.

use std::fs;
use std::path::Path;

/// Rows of the table *What may go wrong*, and tests by the path of their module here.
#[rustfmt::skip] // one row, one accident
const ACCIDENTS: &[(&str, &[&str])] = &[
    ("the engine is killed, hangs, or answers late", &[
        "an_instance_without_its_engine_forwards_nothing",
        "a_request_that_is_held_is_refused_when_its_instance_is_cut_off",
        "an_open_tunnel_ends_when_its_instance_is_cut_off",
        "engine_faults::an_engine_that_is_killed_and_reads_its_file_again_costs_time_alone",
        "engine_faults::an_engine_that_is_stopped_costs_time_alone",
        "engine_faults::an_engine_that_pauses_costs_time_alone",
        "engine_faults::late_answers_of_an_engine_cost_time_alone",
        "engine_faults::a_fetch_that_outlives_its_engine_is_the_only_one_and_permits_nothing_before_the_engine_is_back",
        "pace::two_rates_hold_while_the_engine_and_an_instance_are_killed",
        "chaos::chaos_with_one_engine_lets_nothing_out_and_loses_nothing",
    ]),
    ("it forgets everything (`FLUSHALL`, a start without its file)", &[
        "engine_faults::an_engine_that_is_emptied_again_and_again_costs_time_alone",
        "overrides::a_denial_added_at_one_instance_holds_at_all_whatever_the_engine_forgets",
        "instance_faults::a_turn_in_hand_is_not_used_while_the_engine_may_have_forgotten_it",
        "coordinator::turns::an_engine_that_has_lost_everything_counts_every_origin_as_used",
        "coordinator::quotas::an_engine_that_has_just_begun_gives_nothing",
    ]),
    ("it is restored from an old file", &["engine_faults::an_engine_that_is_restored_from_an_old_dump_takes_nothing_back"]),
    ("it forgets the scripts", &["engine_faults::an_engine_that_forgets_its_scripts_is_told_them_again"]),
    ("it is full", &["engine_faults::an_engine_without_memory_ends_in_nothing_at_all_and_comes_back"]),
    ("its clock is set forwards", &["clocks::a_clock_of_the_engine_that_is_set_lets_few_turns_go_early_and_stops_no_crawl"]),
    ("its clock is set back", &[
        "clocks::a_clock_of_the_engine_that_is_set_lets_few_turns_go_early_and_stops_no_crawl",
        "coordinator::turns::a_clock_that_is_set_back_begins_a_new_generation",
        "coordinator::quotas::a_clock_that_is_set_back_gives_no_quota_anew",
        "coordinator::sequences::any_sequence_of_questions_has_the_same_answers_from_a_real_engine_and_in_memory",
    ]),
    ("another primary is named", &[
        "failover::another_primary_takes_over_and_the_old_one_is_left_when_it_wakes",
        "failover::an_old_primary_that_is_parted_from_the_others_permits_nothing_beside_the_new_one",
        "chaos::chaos_with_sentinels_lets_nothing_out_and_loses_nothing",
    ]),
    ("an instance is killed while it fetches", &["instance_faults::another_instance_fetches_when_the_one_with_the_lease_dies"]),
    ("it is stopped while it fetches, and continues later", &[
        "robots::the_late_result_of_an_instance_that_was_stopped_is_refused",
        "coordinator::a_late_state_is_refused",
    ]),
    ("it is killed with turns, slots or a part of a quota", &[
        "instance_faults::the_slots_and_turns_of_a_killed_instance_are_waited_for",
        "pace::one_concurrency_holds_while_the_engine_and_an_instance_are_killed",
        "quotas::an_instance_that_is_killed_takes_no_more_than_its_part_of_a_quota_with_it",
    ]),
    ("engine and instance are killed at once", &[
        "instance_faults::an_engine_and_an_instance_that_are_killed_in_one_moment_let_no_turn_go_early",
    ]),
    ("an instance is cut off", &[
        "instance_faults::an_instance_without_its_link_forwards_for_no_longer_than_its_patience",
        "overrides::an_instance_that_is_stopped_is_named_and_forwards_nothing_later",
        "overrides::an_instance_that_the_engine_has_forgotten_is_named_as_late",
    ]),
    ("two instances have one name", &[
        "instance_faults::a_second_instance_of_one_name_is_cut_off_until_the_first_one_is_gone",
        "coordinator::members::a_name_stays_with_its_process_until_that_one_is_silent_or_leaves",
    ]),
    ("an instance has another key", &[
        "instance_faults::an_instance_with_another_key_is_cut_off_and_no_member",
        "coordinator::members::an_instance_with_another_key_does_not_join_while_a_member_has_the_old_one",
    ]),
    ("clocks of instances are apart", &[
        "clocks::instances_with_clocks_that_are_apart_share_states_turns_and_overrides",
        "robots::a_stored_state_of_a_clock_that_was_ahead_is_imposed_on_no_instance",
    ]),
    ("messages are lost", &[
        "robots::an_instance_that_misses_a_message_takes_over_what_was_forgotten",
        "robots::a_comparison_that_the_engine_leaves_open_is_made_again",
        "robots::an_instance_that_was_down_hears_what_was_forgotten_meanwhile",
    ]),
    ("octets in the engine are planted or altered", &[
        "robots::a_planted_state_permits_nothing",
        "robots::a_planted_token_without_end_stops_no_fetch",
        "overrides::an_override_that_is_planted_in_the_engine_is_not_taken",
        "instance_faults::what_is_altered_in_the_engine_permits_nothing",
        "foreign::a_planted_number_of_changes_hides_no_override",
        "coordinator::planted::what_is_planted_delays_and_is_forgotten",
    ]),
    ("instances have other versions", &[
        "foreign::an_override_of_another_version_stops_the_instances_that_cannot_read_it",
        "foreign::a_removal_of_another_version_takes_an_override_out_of_force",
        "foreign::a_member_of_another_version_counts_as_one_without_the_override",
        "foreign::a_state_of_another_version_is_fetched_anew",
    ]),
    ("instances have other settings", &[
        "instance_faults::instances_that_read_files_differently_share_no_state",
        "view::the_command_shows_link_engine_members_and_counts",
    ]),
];

#[test]
fn each_accident_of_the_docs_has_tests_that_cause_it() {
    let page = include_str!("../../../docs/fleet.md");
    let (_, behind) = page.split_once("\n## What may go wrong\n").unwrap();
    let rows = behind
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.collect();
    let named: Vec<&str> = ACCIDENTS.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, named);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    for (row, tests) in ACCIDENTS {
        assert!(!tests.is_empty(), "{row}");
        for &test in *tests {
            let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
            let file = format!("fleet/{}", module.replace("::", "/"));
            let file = folder.join(format!("{}.rs", file.trim_end_matches('/')));
            let text = fs::read_to_string(&file).unwrap();
            let is_test = text.contains(&format!("#[test]\nfn {name}()"));
            assert!(is_test, "{row}: {test} in {}", file.display());
        }
    }
}
