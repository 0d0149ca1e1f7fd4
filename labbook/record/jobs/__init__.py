"""One entry for a job of several recorded tasks: `srun labbook record -- python train.py`.

Each task has a recorder and a journal of its own, on any node that sees the notebook's folder. `job_place.join_job`
puts the task into the folder of its job, `.labbook/jobs/<key>/`; the first task there gives the entry its run id. When
a task ends, it marks its journal as left and calls `job_entry.settle_job`. That returns at once while another recorder
of the job lives. The last one to end reads all journals as one (`job_journal.JobJournal`) and writes the entry. A task
that ends later, and `labbook recover` for tasks whose recorder was killed, do the same again with what is new.

No task waits for another one. The only waits are bounded: the last task waits a few seconds for tasks that have not
started yet. `part_entries.join_parts` joins the entries of nodes without a shared file system.

If anything here fails, the task becomes a run of its own: the command runs in any case. How a job is recognised is in
`capture/job_identity.py`; what the ranks did is in `run_from_journal/roll_call.py`, which is odd in `odd_rank.py`.
"""
