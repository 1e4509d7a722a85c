"""What can go wrong outside, as the loop sees it.

NodeFleetError
├── UnavailableError      a part did not answer, or not in time; whether it did what was asked is not known
│   ├── ThrottledError    it answered that it is asked too often
│   └── UnreachableError  no answer at all: its address or its certificate may have changed
├── DeniedError           we may not; says what to fix
│   └── LoginRefusedError who we say we are is not accepted: the login may have been renewed meanwhile
├── ChangedError          what was to be acted upon is no longer what it was: leave it, and observe again
├── LostLeaseError        another run may act by now; this one acts no more
├── MalformedError        something from outside cannot be understood; trying again does not help
└── MisconfiguredError    the deployment lacks something; says what

A policy that is refused is a domain.problems.RefusedError with all its problems.
"""


class NodeFleetError(Exception):
    pass


class UnavailableError(NodeFleetError):
    def __init__(self, part: str, cause: str) -> None:
        super().__init__(f"{part}: {cause}")
        self.part = part  # EC2, Kubernetes, DynamoDB, S3, Prometheus, SQS, CloudWatch, Slack, Secrets Manager
        self.cause = cause


class ThrottledError(UnavailableError):
    pass


class UnreachableError(UnavailableError):
    pass


class DeniedError(NodeFleetError):
    def __init__(self, part: str, cause: str, remedy: str) -> None:
        super().__init__(f"{part}: {cause}. {remedy}")
        self.part = part
        self.cause = cause
        self.remedy = remedy


class LoginRefusedError(DeniedError):
    pass


class ChangedError(NodeFleetError):
    pass


class LostLeaseError(NodeFleetError):
    pass


class MalformedError(NodeFleetError):
    pass


class MisconfiguredError(NodeFleetError):
    pass
