"""SSH to the ranks of a job by name: host entries, checked host keys, the person's key, and a doctor.

Everything a4 writes stands in one folder of its own (`places`); the person's ssh config gets one Include line
(`include`). `following` is what `a4 proxy` calls when a pod has been replaced; paramiko is imported by
`client` and `sftp` alone, where SSH is spoken by a4 itself: for the doctor and for copies.
"""
