"""One cluster's records in one DynamoDB table: the lease, what an iteration needs, and what was recorded.

keys          what each record is called, and why the lease sorts first
attributes    DynamoDB's own form of values and expressions
codec         what a record holds, as JSON in one attribute, readable across versions
items         each record as it stands in the table, with what an operator wants to read there
table         the calls; a write that met another one is tried again
writing       several records together or not at all, in as few transactions as they fit into
lease         who may act
reading       everything that an iteration needs, of one query
commit        what an iteration leaves behind
store         ports.Store
history       ports.History
deploying     where a cluster's parts are, for those who have no stack that writes it
"""
