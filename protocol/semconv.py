"""Semconv: every name of Jettison's telemetry. Names are for ever, values are a closed set.

Ids may be attribute values of spans. They are never in span names, and never labels of metrics: both must stay few.
There are no span events: OpenTelemetry is replacing them, and the facts of the log already say what happened.
"""

from __future__ import annotations

from typing import Literal

SCOPE = "jettison"
"""Instrumentation scope of all our spans and metrics."""

Outcome = Literal["applied", "noop", "declined", "rejected", "failed"]
"""applied: the view changed; noop: it did not have to; declined: it was not worth it; rejected: an answer was refused,
or another writer was faster; failed: an error."""

Category = Literal["system", "user", "assistant", "tool_calls", "tool_results", "digest"]

# --- our own attributes -------------------------------------------------------------------------------------------

TENANT = "jettison.tenant"  # as in subjects
STAGE = "jettison.stage"  # spill, digest, squeeze, cut
OUTCOME = "jettison.outcome"  # see Outcome
SNAPSHOT_VERSION = "jettison.snapshot.version"
HANDED_VERSION = "jettison.handed.version"  # of the snapshot that a wake-up names
WORKED_VERSION = "jettison.worked.version"  # of the one that its receiver began with
SNAPSHOT_PARENT_VERSION = "jettison.snapshot.parent_version"
STREAM_SEQUENCE = "jettison.stream.sequence"
TOKENIZER = "jettison.tokenizer"
TOKENIZER_ESTIMATED = "jettison.tokenizer.estimated"  # bool: the model's own vocabulary is not known
MESSAGES_BEFORE = "jettison.messages.before"
MESSAGES_AFTER = "jettison.messages.after"
ARTIFACTS_COUNT = "jettison.artifacts.count"
ARTIFACTS_BYTES = "jettison.artifacts.bytes"
ARTIFACT_KIND = "jettison.artifact.kind"  # label of ARTIFACT_SIZE

BEFORE_TOKENS = "jettison.before_tokens"
AFTER_TOKENS = "jettison.after_tokens"
VALUES_RETAINED = "jettison.values.retained"  # of what left or was shortened: stands in the view, or in the digest
VALUES_RECOVERABLE = "jettison.values.recoverable"  # a pointer in the view leads to it
VALUES_LOST = "jettison.values.lost"  # neither; the log has it
COST_MICRODOLLARS = "jettison.cost_microdollars"  # what models were paid, by the table of prices; not set: not known
LIMIT_TOKENS = "jettison.limit_tokens"  # what is usable: the window without reserve and headroom

# Spelled out, not put together, so that a search for a name finds it.
BEFORE_TOKENS_OF: dict[Category, str] = {
    "system": "jettison.before.system_tokens",
    "user": "jettison.before.user_tokens",
    "assistant": "jettison.before.assistant_tokens",
    "tool_calls": "jettison.before.tool_calls_tokens",
    "tool_results": "jettison.before.tool_results_tokens",
    "digest": "jettison.before.digest_tokens",
}
AFTER_TOKENS_OF: dict[Category, str] = {
    "system": "jettison.after.system_tokens",
    "user": "jettison.after.user_tokens",
    "assistant": "jettison.after.assistant_tokens",
    "tool_calls": "jettison.after.tool_calls_tokens",
    "tool_results": "jettison.after.tool_results_tokens",
    "digest": "jettison.after.digest_tokens",
}

GATEWAY_API = "jettison.gateway.api"  # chat, messages, responses, other
GATEWAY_HOW = "jettison.gateway.how"  # view, kept, bypass, pass, refused
GATEWAY_STATUS = "jettison.gateway.status"  # 2xx, 4xx …, none

REASON = "jettison.reason"  # of a dead letter: fault, unreadable, damaged, deadly
LANE = "jettison.lane"  # normal, priority
RETENTION_OUTCOME = "jettison.retention.outcome"  # of an idle conversation: archived, erased, failed
STORE_METHOD = "jettison.store.method"  # as in S3's own API
VERB = "jettison.verb"  # what an agent asks the context service for

# --- conventions of OpenTelemetry ---------------------------------------------------------------------------------

ERROR_TYPE = "error.type"

MESSAGING_SYSTEM = "messaging.system"  # "nats": a custom value, and the one that every NATS integration uses
MESSAGING_OPERATION_NAME = "messaging.operation.name"  # publish, process
NATS_NUM_DELIVERED = "messaging.nats.num_delivered"

GEN_AI_OPERATION_NAME = "gen_ai.operation.name"  # chat
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id"
GEN_AI_CONVERSATION_COMPACTED = "gen_ai.conversation.compacted"  # true, and never set to false
GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # input, output
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"

HTTP_RESPONSE_STATUS_CODE = "http.response.status_code"

RPC_SYSTEM = "rpc.system"  # aws-api
RPC_SERVICE = "rpc.service"
RPC_METHOD = "rpc.method"
AWS_S3_BUCKET = "aws.s3.bucket"
AWS_S3_KEY = "aws.s3.key"

DISTRO_NAME = "telemetry.distro.name"  # on the resource: says that the SDK was set up by us
SERVICE_NAME = "service.name"

# --- names of spans; braces stay braces where an id would be -------------------------------------------------------

PUBLISH_SAID = "publish ctx.v1.log.{tenant}.{conversation}.said"


def compact(stage: str) -> str:
    """Return the span name of one step of *stage*."""
    return f"compact {stage}"


def wake_template(actor: str) -> str:
    """Return the subject that wakes *actor*, as a template."""
    return f"ctx.v1.wake.{actor}.{{tenant}}.{{conversation}}"


def chat(model: str) -> str:
    """Return the span name of a question to *model*."""
    return f"chat {model}"


def s3(method: str) -> str:
    """Return the span name of a call of the S3 store; *method* is spelled as in S3's own API."""
    return f"S3.{method}"


# --- metrics ------------------------------------------------------------------------------------------------------

COMPACTION_DURATION = "jettison.compaction.duration"  # histogram, s; by stage and outcome
TOKENS_REMOVED = "jettison.tokens.removed"  # counter, {token}; by stage
ARTIFACT_SIZE = "jettison.artifact.size"  # histogram, By; by kind
SERVE_DURATION = "jettison.serve.duration"  # histogram, s; by verb, and by error where one was the answer
DEAD_LETTERS = "jettison.dead_letters"  # counter, {letter}; by stage and reason
LLM_COST = "jettison.llm.cost"  # counter, {microdollar}; by model
STORE_FAILURES = "jettison.store.failures"  # counter, {call}; by method
QUEUE_SLOTS = "jettison.queue.slots"  # gauge, {slot}; by stage and lane
QUEUE_AGE = "jettison.queue.age"  # gauge, s; by stage and lane
LOG_BYTES = "jettison.log.size"  # gauge, By
LOG_REPLICAS_BEHIND = "jettison.log.replicas.behind"  # gauge, {replica}
ANCHORS_AGE = "jettison.anchors.age"  # gauge, s
RETENTION_CONVERSATIONS = "jettison.retention.conversations"  # counter, {conversation}; by outcome
RETENTION_OVERDUE = "jettison.retention.overdue"  # gauge, s
RETENTION_FAILED = "jettison.retention.round_failed"  # gauge, {round}
STORAGE_USED = "jettison.nats.storage.used"  # gauge, By
STORAGE_LIMIT = "jettison.nats.storage.limit"  # gauge, By; where the account has one
GATEWAY_PROMPT = "jettison.gateway.tokens.prompt"  # counter, {token}; by cache
GATEWAY_CACHE = "jettison.gateway.cache"  # hit, miss
GATEWAY_REQUESTS = "jettison.gateway.requests"  # counter, {request}; by api, how and status
GATEWAY_ADDED = "jettison.gateway.added"  # histogram, s; by api and how
GATEWAY_FIRST = "jettison.gateway.first_byte"  # histogram, s; by api and how
GATEWAY_SAVED = "jettison.gateway.tokens.saved"  # counter, {token}; by api and how
GATEWAY_BYTES = "jettison.gateway.bytes"  # counter, By; by api and direction
GATEWAY_DIRECTION = "jettison.gateway.direction"  # received from agents, sent to providers, returned to agents
GEN_AI_CLIENT_OPERATION_DURATION = "gen_ai.client.operation.duration"  # histogram, s; by provider and model
GEN_AI_CLIENT_TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105  # histogram, {token}; by type


def of_conversation(tenant: str, conversation: str) -> dict[str, str]:
    """Return the attributes that say of which conversation a span is."""
    return {TENANT: tenant, GEN_AI_CONVERSATION_ID: conversation}
