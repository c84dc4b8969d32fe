"""The tree of tests mirrors the source: a reader of `src/rota/a/b.py` finds `tests/a/test_b.py`.

Modules that are parts of one thing, and are proven through its face, are listed with the tests that do so. A room
(`store/sqlite/*`) is listed as a whole where every module of it carries out contracts that are tested on all stores.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "rota"
SMALL = 40  # lines: less than that is a name or a value, and tested where it is used

SCENARIOS = {"bench", "chaos", "checks", "contracts", "docs", "node", "servers", "sim", "typing"}

TESTED_BY = {
    "api/desk.py": "api/test_app.py",
    "api/line_places.py": "api/resources/test_log_search.py",
    "api/requests.py": "api/test_app.py",
    # Declarations: contracts say what implementations do.
    "store/*.py": "contracts",
    "store/carriers/*": "contracts",
    "store/search/*": "contracts/test_search.py contracts/test_pages.py store/sqlite/test_plans.py",
    "store/line_search/*": "contracts/test_find_lines.py",
    "store/sqlite/*": "contracts store/sqlite",
    "store/postgres/*": "contracts store/postgres",
    # Processes that only mean something together: scenarios, one file for each danger.
    "work/functions/*": "work/functions node/test_functions.py node/test_processes.py",
    "work/keeper/*": "work/keeper node/test_commands.py node/test_hostile_commands.py",
    "work/executors/command_*.py": "work/executors/test_command.py node/test_commands.py node/test_secrets.py",
    "work/executors/http_connection.py": "work/executors/test_http.py work/executors/test_http_dangers.py",
    "work/output.py": "node/test_output.py",
    "work/progress*.py": "node/test_telling.py contracts/test_progress.py",
    "work/runtime.py": "node/test_functions.py node/test_commands.py",
    "control/sealer.py": "contracts/test_sealing.py",
    # The spool: what each part must do shows when the writer dies.
    "logs/pieces.py": "logs/test_sink.py",
    "model/output_marks.py": "logs/test_sink.py contracts/test_late_output.py",
    "logs/recovery.py": "logs/test_journal.py",
    "logs/spool.py": "logs/test_journal.py logs/test_replayer.py",
    # Object places: parts that show in what a place does.
    "artifacts/folder_files.py": "artifacts/test_folder.py artifacts/test_place.py",
    "artifacts/s3_problems.py": "artifacts/test_s3.py",
    "artifacts/s3_streams.py": "artifacts/test_s3.py artifacts/test_place.py",
    # Far-away workers: what they may do is shown by their verbs.
    "api/tickets.py": "api/test_far_workers.py",
    "api/work_checks.py": "api/test_far_workers.py",
    "remote/work_calls.py": "api/test_far_workers.py api/test_workers.py",
    # Programs: parts that show in what packing, unpacking and the cache do.
    "artifacts/blocks.py": "artifacts/test_unpack.py artifacts/test_pack.py",
    "artifacts/compression.py": "artifacts/test_archive.py",
    "artifacts/counting.py": "artifacts/test_pack.py artifacts/test_unpack.py artifacts/test_archive.py",
    "artifacts/executables.py": "artifacts/test_entry.py",
    "artifacts/ignoring.py": "artifacts/test_pack.py",
    "artifacts/installing.py": "artifacts/test_environment.py",
    "artifacts/names.py": "artifacts/test_pack.py artifacts/test_unpack.py artifacts/test_archive.py",
    "artifacts/shelf.py": "artifacts/test_cache.py artifacts/test_environment.py",
    "artifacts/tar_reader.py": "artifacts/test_archive.py",
    "artifacts/trees.py": "artifacts/test_unpack.py artifacts/test_cache.py artifacts/test_environment.py",
    "artifacts/zip_reader.py": "artifacts/test_archive.py",
    # The command line: each verb is run as people do, with all that it goes through.
    "cli/audit.py": "cli/test_key.py",
    "cli/calls.py": "cli/test_http.py",
    "cli/commands.py": "cli/test_submit.py cli/test_run.py",
    "cli/foreign_schedules.py": "cli/test_schedule_takeover.py",
    "cli/grammar.py": "cli/test_parser.py cli/test_bad_input.py",
    "cli/main.py": "cli/test_parser.py cli/test_bad_input.py",
    "cli/node.py": "cli/test_store.py",
    "cli/parser_*.py": "cli/test_parser.py",
    "cli/reference.py": "cli/test_parser.py",
    "cli/relations.py": "cli/test_workflow.py",
    "cli/session.py": "cli/test_store.py cli/test_bad_input.py",
    "cli/user.py": "cli/test_key.py",
    "cli/waiting.py": "cli/test_queue.py cli/test_limit.py",
    "cli/workflow_file.py": "cli/test_workflow.py cli/test_workflow_file.py",
    # Parts of how schedules name their fires: each part shows in which instants are named.
    "model/trigger/calendars.py": "model/trigger/test_rules.py contracts/test_calendars.py",
    "model/trigger/cron_text.py": "model/trigger/test_cron.py",
    "model/trigger/effort.py": "model/trigger/test_recurrence_rfc.py",
    "model/trigger/fires.py": "model/trigger/test_daylight.py model/trigger/test_rules.py",
    "model/trigger/policies.py": "model/trigger/test_catchup.py model/trigger/test_reading.py",
    "model/trigger/records.py": "contracts/test_fires.py",
    "model/trigger/recurrence_*.py": "model/trigger/test_recurrence.py model/trigger/test_recurrence_rfc.py",
    "model/trigger/schedule.py": "model/trigger/test_rules.py",
    "model/trigger/spread.py": "model/trigger/test_rules.py",
    "model/trigger/wall.py": "model/trigger/test_daylight.py",
    "model/query/normal.py": "model/query/test_format.py model/query/test_evaluate.py",
    "model/query/tree.py": "model/query/test_check.py",
    "model/query/values.py": "model/query/test_parse.py",
    "model/requirements.py": "contracts/test_limits.py contracts/test_alone.py",
    "handles/keywords.py": "model/test_options.py",
    "handles/schedule_builder.py": "handles/test_schedule.py",
    # The hot tier: the contract is held by a suite over all lanes.
    "hot/lane.py": "hot/test_heap.py hot/test_reports.py hot/test_wakes.py",
    "hot/problems.py": "hot/test_opening.py hot/test_redis.py",
    "dialing.py": "remote/test_pool.py hot/test_opening.py",
    "app_core.py": "test_app.py test_connections.py",
    "app_code.py": "test_app.py handles/test_shared_task.py cli/test_app_target.py",
    "opening.py": "test_app.py test_connections.py",
    "clients/line_tail.py": "contracts/test_line_tail.py node/test_tail.py",
    "clients/tail_output.py": "contracts/test_line_tail.py",
    "cli/line_rows.py": "cli/test_logs_tail.py",
    "handles/logs.py": "node/test_tail.py docs/test_logs.py",
    "clients/people.py": "cli/test_key.py clients/test_key_files.py",
    "clients/workflows.py": "handles/test_workflow.py handles/test_workflow_builder.py cli/test_workflow.py",
    "views/*": "cli model/test_job.py model/test_gates.py clients/test_explain.py",
    "api/resources/job_changes.py": "api/resources/test_jobs.py",
    "api/resources/searches.py": "api/resources/test_jobs.py",
    "api/resources/calendars.py": "api/resources/test_schedules.py",
    "api/resources/gates.py": "api/resources/test_admission.py",
    "api/resources/limits.py": "api/resources/test_admission.py",
    "api/resources/queues.py": "api/resources/test_admission.py",
    "api/resources/nodes.py": "api/resources/test_admission.py",
    "api/versions.py": "api/resources/test_schedules.py api/resources/test_admission.py",
    "model/versions.py": "contracts/test_edits.py",
    "wire_orders/entries.py": "wire_orders/test_jobs.py model/test_options.py",
    "wire_orders/offered.py": "cli/test_submit.py cli/test_task.py",
    "wire_orders/workflows.py": "cli/test_workflow.py cli/test_workflow_file.py",
    "model/option_table.py": "model/test_options.py",
    "errors.py": "docs/test_pages.py",
    # Calls of a server: parts that show in the calls.
    "api/call_checks.py": "api/test_received.py",
    "api/received_schedules.py": "api/test_received.py",
    "api/repeated_orders.py": "remote/test_store.py",
    "api/repeats.py": "api/resources/test_repeats.py api/resources/test_repeat_keys.py node/test_lost_answers.py",
    "api/trails.py": "api/resources/test_repeats.py api/resources/test_repeat_keys.py",
    "remote/connection.py": "remote/test_pool.py",
    "remote/replies.py": "remote/test_store.py",
    # The harness of users' tests: parts that show in what a test sees.
    "testing/callers.py": "testing/test_within.py",
    "testing/connections.py": "testing/test_harnesses.py testing/test_eager.py",
    "testing/executors.py": "testing/test_harnesses.py testing/test_fakes.py",
}


@cache
def modules() -> list[str]:
    found = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if not path.name.startswith("__")]
    return [str(path) for path in found if len((SOURCE / path).read_text("utf-8").splitlines()) > SMALL]


def file_of(module: str) -> Path:
    path = Path(module)
    return TESTS / path.parent / f"test_{path.name}"


def listed(module: str) -> list[str]:
    # `*` must not reach into folders: `store/*.py` is about the files of `store/` alone.
    depth = module.count("/")
    return [name for name in TESTED_BY if fnmatch(module, name) and name.count("/") == depth]


def test_every_module_has_a_test_of_its_name_or_is_listed() -> None:
    missing = [module for module in modules() if not file_of(module).exists() and not listed(module)]
    assert not missing, f"write {[str(file_of(module).relative_to(TESTS.parent)) for module in missing]}"


def test_the_list_names_modules_and_tests_that_are_there() -> None:
    for name, places in TESTED_BY.items():
        assert any(name in listed(module) for module in modules()), f"there is no module {name} any more"
        for place in places.split():
            assert (TESTS / place).exists(), f"{name}: there is no {place} any more"


def test_folders_of_tests_are_those_of_the_source_or_scenarios() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert not [folder for folder in folders if not (SOURCE / folder).is_dir() and folder.parts[0] not in SCENARIOS]
