from . import poll_ras as poll_ras
from . import probe as probe
from . import run_torch_analyser as run_torch_analyser
from .collective_history import (
    Call as Call,
)
from .collective_times import (
    PodTimes as PodTimes,
)
from .collective_times import (
    find_late_on_gpu as find_late_on_gpu,
)
from .collective_times import (
    read_times as read_times,
)
from .data_waits import (
    add_samples as add_samples,
)
from .data_waits import (
    choose_sampled as choose_sampled,
)
from .data_waits import (
    parse_samples as parse_samples,
)
from .data_waits import (
    read_samples as read_samples,
)
from .data_waits import (
    seconds_to_sample as seconds_to_sample,
)
from .decoding import (
    MAX_PROCESSES as MAX_PROCESSES,
)
from .decoding import (
    check_cost as check_cost,
)
from .errors import (
    UnreadableAnswer as UnreadableAnswer,
)
from .flight_recorder import (
    DESYNC_ADVICE as DESYNC_ADVICE,
)
from .flight_recorder import (
    Desync as Desync,
)
from .flight_recorder import (
    Finding as Finding,
)
from .flight_recorder import (
    Group as Group,
)
from .flight_recorder import (
    GroupRanks as GroupRanks,
)
from .flight_recorder import (
    Operation as Operation,
)
from .flight_recorder import (
    RankDump as RankDump,
)
from .flight_recorder import (
    describe_dumps as describe_dumps,
)
from .flight_recorder import (
    judge as judge,
)
from .nccl_ras import (
    RasRank as RasRank,
)
from .nccl_ras import (
    RasReport as RasReport,
)
from .nccl_ras import (
    parse_ras as parse_ras,
)
from .pod_answers import (
    Answers as Answers,
)
from .pod_answers import (
    PodAnswer as PodAnswer,
)
from .pod_answers import (
    PodRank as PodRank,
)
from .pod_answers import (
    RasAnswer as RasAnswer,
)
from .pod_answers import (
    judge_processes as judge_processes,
)
from .pod_answers import (
    list_dumps as list_dumps,
)
from .pod_answers import (
    list_processes as list_processes,
)
from .pod_answers import (
    list_spared as list_spared,
)
from .pod_answers import (
    parse_answer as parse_answer,
)
from .pod_answers import (
    parse_or_explain as parse_or_explain,
)
from .pod_answers import (
    rank_by_process as rank_by_process,
)
from .pod_answers import (
    refuse_foreign_ranks as refuse_foreign_ranks,
)
from .rank_words import (
    format_pods as format_pods,
)
from .rank_words import (
    format_processes as format_processes,
)
from .report import (
    FAILED_ADVICE as FAILED_ADVICE,
)
from .report import (
    GONE_ADVICE as GONE_ADVICE,
)
from .report import (
    HALTED_STATES as HALTED_STATES,
)
from .report import (
    NO_REPORT as NO_REPORT,
)
from .report import (
    HangGroup as HangGroup,
)
from .report import (
    HangReport as HangReport,
)
from .report import (
    MpiLauncher as MpiLauncher,
)
from .report import (
    PodTrace as PodTrace,
)
from .report import (
    TracedProcess as TracedProcess,
)
from .report import (
    list_named_by_nccl as list_named_by_nccl,
)
from .report_lines import (
    MAX_STACKS as MAX_STACKS,
)
from .report_lines import (
    describe_analysis as describe_analysis,
)
from .report_lines import (
    format_analysis_lines as format_analysis_lines,
)
from .report_lines import (
    format_member_lines as format_member_lines,
)
from .report_lines import (
    format_pod_lines as format_pod_lines,
)
from .report_lines import (
    format_report as format_report,
)
from .report_lines import (
    format_slow_report as format_slow_report,
)
from .report_lines import (
    report_to_json as report_to_json,
)
from .report_lines import (
    slow_report_to_json as slow_report_to_json,
)
from .slow_rank_words import (
    ASK_RECORDERS as ASK_RECORDERS,
)
from .slow_rank_words import (
    DUMPS_HALT as DUMPS_HALT,
)
from .slow_rank_words import (
    LateRank as LateRank,
)
from .slow_rank_words import (
    describe_cost as describe_cost,
)
from .slow_rank_words import (
    describe_slow_rank as describe_slow_rank,
)
from .slow_rank_words import (
    format_share as format_share,
)
from .slow_ranks import (
    MAX_ASKED_SECONDS as MAX_ASKED_SECONDS,
)
from .slow_ranks import (
    MIN_POLLS as MIN_POLLS,
)
from .slow_ranks import (
    MIN_STEPS as MIN_STEPS,
)
from .slow_ranks import (
    RasPolls as RasPolls,
)
from .slow_ranks import (
    SlowReport as SlowReport,
)
from .slow_ranks import (
    add_locations as add_locations,
)
from .slow_ranks import (
    add_times as add_times,
)
from .slow_ranks import (
    find_slow_ranks as find_slow_ranks,
)
from .slow_ranks import (
    locate_late_rank as locate_late_rank,
)
from .slow_ranks import (
    parse_polls as parse_polls,
)
from .slow_ranks import (
    seconds_to_ask as seconds_to_ask,
)
from .stack_location import (
    ACTIVITY_ADVICE as ACTIVITY_ADVICE,
)
from .stack_location import (
    STACK_NOT_ASKED as STACK_NOT_ASKED,
)
from .stack_location import (
    Activity as Activity,
)
from .stack_location import (
    StackLocation as StackLocation,
)
from .stack_location import (
    locate_compiled as locate_compiled,
)
from .torch_analysis import (
    ANALYSER_SCRIPT as ANALYSER_SCRIPT,
)
from .torch_analysis import (
    TorchAnalysis as TorchAnalysis,
)
from .torch_analysis import (
    TorchFinding as TorchFinding,
)
from .torch_analysis import (
    build_question as build_question,
)
from .torch_analysis import (
    read_answer as read_answer,
)
