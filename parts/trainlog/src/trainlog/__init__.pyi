from .failure_kinds import (
    GpuFault as GpuFault,
    LogFailure as LogFailure,
    NcclMessage as NcclMessage,
    group_sentences as group_sentences,
    parse_gpu_fault as parse_gpu_fault,
    parse_nccl_message as parse_nccl_message,
)
from .failure_parser import (
    FailureParser as FailureParser,
    find_failed_stage as find_failed_stage,
    name_reason as name_reason,
    parse_failures as parse_failures,
)
from .lines import TextLineSplitter as TextLineSplitter, UnparsedLines as UnparsedLines, WordSearch as WordSearch
from .log_file import UnreadableLog as UnreadableLog
from .log_results import (
    EvalScore as EvalScore,
    LmEvalParser as LmEvalParser,
    LogResults as LogResults,
    parse_lm_eval as parse_lm_eval,
)
from .nccl.bandwidth_verdicts import (
    A4_ALL_REDUCE as A4_ALL_REDUCE,
    PASS_LINE as PASS_LINE,
    REFERENCE_RANKS as REFERENCE_RANKS,
    NcclResult as NcclResult,
    RowRating as RowRating,
    expected_busbw as expected_busbw,
    health_scan_average as health_scan_average,
    is_comparable as is_comparable,
    judge_row as judge_row,
    judge_test as judge_test,
    reference_curve as reference_curve,
)
from .nccl.parser import NcclParser as NcclParser, parse_nccl as parse_nccl
from .nccl.test_results import NcclHalf as NcclHalf, NcclRow as NcclRow, NcclTest as NcclTest, PackedRows as PackedRows
from .number_ranges import format_ranges as format_ranges
from .print_results import PrintedLog as PrintedLog, print_log as print_log, print_results_json as print_results_json
from .pyspy import (
    Frame as Frame,
    ProcessStacks as ProcessStacks,
    PySpyParser as PySpyParser,
    ThreadStack as ThreadStack,
    parse_pyspy as parse_pyspy,
)
from .redaction import (
    REDACTED as REDACTED,
    Redactor as Redactor,
    is_confidential as is_confidential,
    looks_confidential as looks_confidential,
    redact_bytes as redact_bytes,
    redact_line as redact_line,
    redact_text as redact_text,
    redact_tree as redact_tree,
)
from .regex import (
    MAX_PATTERN_CHARACTERS as MAX_PATTERN_CHARACTERS,
    compile_pattern as compile_pattern,
    lazy_pattern as lazy_pattern,
)
from .results_json import json_number as json_number, nccl_test_json as nccl_test_json, step_json as step_json
from .results_text import ResultsPrinter as ResultsPrinter
from .severity import (
    DEBUG_WORDS as DEBUG_WORDS,
    ERROR_WORDS as ERROR_WORDS,
    FIRST_ERROR as FIRST_ERROR,
    LEVELS as LEVELS,
    MAX_HEAD_CHARACTERS as MAX_HEAD_CHARACTERS,
    NCCL_LINE as NCCL_LINE,
    NCCL_WORDS as NCCL_WORDS,
    NOT_A_NUMBER as NOT_A_NUMBER,
    WARN_WORDS as WARN_WORDS,
    XID_WORD as XID_WORD,
    detect_level as detect_level,
    has_severity as has_severity,
    is_warning as is_warning,
)
from .training.formats.known_programs import parse_checkpoint as parse_checkpoint, parse_step as parse_step
from .training.formats.megatron import shorten_iteration_line as shorten_iteration_line
from .training.formats.unknown_programs import OwnFormat as OwnFormat
from .training.line_layout import LineLayout as LineLayout, compile_stored_pattern as compile_stored_pattern
from .training.parser import (
    MAX_LAYOUTS as MAX_LAYOUTS,
    TrainingParser as TrainingParser,
    parse_training as parse_training,
)
from .training.run_reader import RunReader as RunReader
from .training.steps import (
    STEP_METRICS as STEP_METRICS,
    STEPS_IN_BLOCK as STEPS_IN_BLOCK,
    MetricColumn as MetricColumn,
    PackedSteps as PackedSteps,
    RunPosition as RunPosition,
    RunSteps as RunSteps,
    Step as Step,
    StepMetric as StepMetric,
    StepRollback as StepRollback,
    describe_nan as describe_nan,
    find_nan_since as find_nan_since,
    find_run_position as find_run_position,
)
from .training.values import parse_count as parse_count
