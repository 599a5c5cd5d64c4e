from . import poll_ras as poll_ras, probe as probe, run_torch_analyser as run_torch_analyser
from .collective_history import Call as Call
from .collective_times import PodTimes as PodTimes, find_late_on_gpu as find_late_on_gpu, read_times as read_times
from .data_waits import (
    add_samples as add_samples,
    choose_sampled as choose_sampled,
    parse_samples as parse_samples,
    read_samples as read_samples,
    seconds_to_sample as seconds_to_sample,
)
from .decoding import MAX_PROCESSES as MAX_PROCESSES, check_json_cost as check_json_cost
from .errors import UnreadableAnswer as UnreadableAnswer
from .flight_recorder import (
    DESYNC_ADVICE as DESYNC_ADVICE,
    Desync as Desync,
    Finding as Finding,
    GroupRanks as GroupRanks,
    Operation as Operation,
    ProcessGroup as ProcessGroup,
    RankDump as RankDump,
    describe_dumps as describe_dumps,
    judge_dumps as judge_dumps,
)
from .hang_report import (
    FAILED_ADVICE as FAILED_ADVICE,
    GONE_ADVICE as GONE_ADVICE,
    HALTED_STATES as HALTED_STATES,
    NO_REPORT as NO_REPORT,
    HangGroup as HangGroup,
    HangReport as HangReport,
    MpiLauncher as MpiLauncher,
    PodTrace as PodTrace,
    TracedProcess as TracedProcess,
    list_named_by_nccl as list_named_by_nccl,
)
from .nccl_ras import RasRank as RasRank, RasReport as RasReport, parse_ras as parse_ras
from .pod_answers import (
    Answers as Answers,
    PodAnswer as PodAnswer,
    PodRank as PodRank,
    RasAnswer as RasAnswer,
    judge_processes as judge_processes,
    list_dumps as list_dumps,
    list_processes as list_processes,
    list_spared as list_spared,
    parse_answer as parse_answer,
    parse_or_explain as parse_or_explain,
    rank_by_process as rank_by_process,
    refuse_foreign_ranks as refuse_foreign_ranks,
)
from .rank_names import format_pods as format_pods, format_processes as format_processes
from .report_texts import (
    MAX_STACKS as MAX_STACKS,
    describe_analysis as describe_analysis,
    format_analysis_lines as format_analysis_lines,
    format_member_lines as format_member_lines,
    format_pod_lines as format_pod_lines,
    format_report as format_report,
    format_slow_report as format_slow_report,
    report_to_json as report_to_json,
    slow_report_to_json as slow_report_to_json,
)
from .slow_rank_texts import (
    ASK_RECORDERS as ASK_RECORDERS,
    DUMPS_HALT as DUMPS_HALT,
    LateRank as LateRank,
    describe_cost as describe_cost,
    describe_slow_rank as describe_slow_rank,
    format_share as format_share,
)
from .slow_ranks import (
    MAX_ASKED_SECONDS as MAX_ASKED_SECONDS,
    MIN_POLLS as MIN_POLLS,
    MIN_STEPS as MIN_STEPS,
    RasPolls as RasPolls,
    SlowReport as SlowReport,
    add_locations as add_locations,
    add_times as add_times,
    find_slow_ranks as find_slow_ranks,
    locate_late_rank as locate_late_rank,
    parse_polls as parse_polls,
    seconds_to_ask as seconds_to_ask,
)
from .stack_location import (
    ACTIVITY_ADVICE as ACTIVITY_ADVICE,
    STACK_NOT_ASKED as STACK_NOT_ASKED,
    Activity as Activity,
    StackLocation as StackLocation,
    locate_compiled as locate_compiled,
)
from .torch_analysis import (
    ANALYSER_SCRIPT as ANALYSER_SCRIPT,
    TorchAnalysis as TorchAnalysis,
    TorchFinding as TorchFinding,
    build_question as build_question,
    read_answer as read_answer,
)
