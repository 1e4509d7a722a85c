"""`nodefleet init`: from a K3s cluster that exists to its policy, deployment record, table, launch template and roles.

inspect   what the account and the cluster have, read only
plan      the files of an adoption, and each thing that would be created
create    what the plan lists, in AWS
"""
