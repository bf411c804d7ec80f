"""What the process tests share: servers of both implementations, free ports, a raw protocol client, tree walks.

Why: a test says which members it wants and what it does to them; how a Java or a Rust member is started is known here only.
Invariants: every address is loopback, every process is stopped by its pid, and none outlives the test that started it.
"""
