from .failure_parser import (
    FailureParser as FailureParser,
)
from .failure_parser import (
    find_failed_stage as find_failed_stage,
)
from .failure_parser import (
    name_reason as name_reason,
)
from .failure_parser import (
    parse_failures as parse_failures,
)
from .log_failure import (
    LogFailure as LogFailure,
)
from .log_failure import (
    NcclMessage as NcclMessage,
)
from .log_failure import (
    Xid as Xid,
)
from .log_failure import (
    group_sentences as group_sentences,
)
from .log_failure import (
    parse_nccl_message as parse_nccl_message,
)
from .log_failure import (
    parse_xid as parse_xid,
)
from .log_file import (
    UnreadableLog as UnreadableLog,
)
from .log_results import (
    EvalScore as EvalScore,
)
from .log_results import (
    LmEvalParser as LmEvalParser,
)
from .log_results import (
    LogResults as LogResults,
)
from .log_results import (
    parse_lm_eval as parse_lm_eval,
)
from .nccl.parser import (
    NcclParser as NcclParser,
)
from .nccl.parser import (
    parse_nccl as parse_nccl,
)
from .nccl.tables import (
    NcclHalf as NcclHalf,
)
from .nccl.tables import (
    NcclRow as NcclRow,
)
from .nccl.tables import (
    NcclTest as NcclTest,
)
from .nccl.tables import (
    PackedRows as PackedRows,
)
from .nccl.verdicts import (
    A4_ALL_REDUCE as A4_ALL_REDUCE,
)
from .nccl.verdicts import (
    PASS_LINE as PASS_LINE,
)
from .nccl.verdicts import (
    REFERENCE_RANKS as REFERENCE_RANKS,
)
from .nccl.verdicts import (
    NcclResult as NcclResult,
)
from .nccl.verdicts import (
    RowRating as RowRating,
)
from .nccl.verdicts import (
    expected_busbw as expected_busbw,
)
from .nccl.verdicts import (
    health_scan_average as health_scan_average,
)
from .nccl.verdicts import (
    is_comparable as is_comparable,
)
from .nccl.verdicts import (
    judge_row as judge_row,
)
from .nccl.verdicts import (
    judge_test as judge_test,
)
from .nccl.verdicts import (
    reference_curve as reference_curve,
)
from .patterns import (
    MAX_PATTERN_CHARACTERS as MAX_PATTERN_CHARACTERS,
)
from .patterns import (
    compile_pattern as compile_pattern,
)
from .patterns import (
    lazy_pattern as lazy_pattern,
)
from .plain_lines import (
    TextLineSplitter as TextLineSplitter,
)
from .printing import (
    PrintedLog as PrintedLog,
)
from .printing import (
    print_log as print_log,
)
from .printing import (
    print_results_json as print_results_json,
)
from .pyspy import (
    Frame as Frame,
)
from .pyspy import (
    ProcessStacks as ProcessStacks,
)
from .pyspy import (
    PySpyParser as PySpyParser,
)
from .pyspy import (
    ThreadStack as ThreadStack,
)
from .pyspy import (
    parse_pyspy as parse_pyspy,
)
from .ranges import (
    format_ranges as format_ranges,
)
from .redaction import (
    REDACTED as REDACTED,
)
from .redaction import (
    Redactor as Redactor,
)
from .redaction import (
    is_confidential as is_confidential,
)
from .redaction import (
    looks_confidential as looks_confidential,
)
from .redaction import (
    redact as redact,
)
from .redaction import (
    redact_bytes as redact_bytes,
)
from .redaction import (
    redact_line as redact_line,
)
from .redaction import (
    redact_tree as redact_tree,
)
from .results_json import (
    json_number as json_number,
)
from .results_json import (
    nccl_test_json as nccl_test_json,
)
from .results_json import (
    step_json as step_json,
)
from .results_text import (
    ResultsPrinter as ResultsPrinter,
)
from .severity import (
    DEBUG_WORDS as DEBUG_WORDS,
)
from .severity import (
    ERROR_WORDS as ERROR_WORDS,
)
from .severity import (
    FIRST_ERROR as FIRST_ERROR,
)
from .severity import (
    LEVELS as LEVELS,
)
from .severity import (
    MAX_HEAD_CHARACTERS as MAX_HEAD_CHARACTERS,
)
from .severity import (
    NCCL_LINE as NCCL_LINE,
)
from .severity import (
    NCCL_WORDS as NCCL_WORDS,
)
from .severity import (
    NOT_A_NUMBER as NOT_A_NUMBER,
)
from .severity import (
    WARN_WORDS as WARN_WORDS,
)
from .severity import (
    XID_WORD as XID_WORD,
)
from .severity import (
    detect_level as detect_level,
)
from .severity import (
    has_severity as has_severity,
)
from .severity import (
    is_warning as is_warning,
)
from .training.formats.megatron import (
    shorten_iteration_line as shorten_iteration_line,
)
from .training.formats.programs import (
    parse_checkpoint as parse_checkpoint,
)
from .training.formats.programs import (
    parse_step as parse_step,
)
from .training.formats.unknown_programs import (
    OwnFormat as OwnFormat,
)
from .training.layout import (
    LineLayout as LineLayout,
)
from .training.parser import (
    TrainingParser as TrainingParser,
)
from .training.parser import (
    parse_training as parse_training,
)
from .training.reader import (
    RunReader as RunReader,
)
from .training.steps import (
    STEP_METRICS as STEP_METRICS,
)
from .training.steps import (
    STEPS_IN_BLOCK as STEPS_IN_BLOCK,
)
from .training.steps import (
    MetricColumn as MetricColumn,
)
from .training.steps import (
    PackedSteps as PackedSteps,
)
from .training.steps import (
    Rollback as Rollback,
)
from .training.steps import (
    RunPosition as RunPosition,
)
from .training.steps import (
    Step as Step,
)
from .training.steps import (
    StepMetric as StepMetric,
)
from .training.steps import (
    Steps as Steps,
)
from .training.steps import (
    describe_nan as describe_nan,
)
from .training.steps import (
    find_nan_since as find_nan_since,
)
from .training.steps import (
    find_run_position as find_run_position,
)
from .training.values import (
    parse_count as parse_count,
)
from .unparsed import (
    UnparsedLines as UnparsedLines,
)
from .word_search import (
    WordSearch as WordSearch,
)
