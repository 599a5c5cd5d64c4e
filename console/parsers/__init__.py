"""Foreign spelling in, models out: pure functions, nothing awaited.

Every kind of API object has a narrow wire type (only the fields that are used, all of them optional) and one function
that makes the model of it. `kinds` lists them, `page` reads lists and watch lines of any of them from bytes.

Which module to open first:

    nccl                     tables of nccl-tests in a log: a line (`nccl_line`), many rows at once (`nccl_rows`), a
                             test that grows (`nccl_stream`), a test as JSON (`nccl_json`)
    failures                 failures that a log names, and how launchers say that a job ended: time-outs and warnings
                             of NCCL (`nccl_message`), memory, faults of GPUs (`xid`), torchrun, mpirun, Slurm
    collectors               what collectors of logs put around lines (JSON, CSV, lists, marks), taken off
    lm_eval, pyspy           scores of evaluations, stacks of processes
    training                 steps of training in a log: whose line it is, and the runs they make (`training_run`).
        training_known       programs that are known, a module for each family of them
        training_learned     programs that nobody described, by the usual names of figures (`training_names`)
        training_blocks      reports of a step over several lines
        training_layout      lines of any program that are all alike, many at once
    kinds                    objects of the Kubernetes API, a module for each kind (`pod`, `jobset`, ...)
    found                    objects that are only looked at on demand
    schema, values           values.schema.json -> fields of the form; values held against it, from YAML (`values_text`,
                             `values_read`) and back (`values_write`)
    helm_line, seed_values   a Helm command that was pasted, and the values of the documents' charts
    blocks, words, lines     what all readers of logs share: whole lines of bytes, and the few that are worth reading
"""
