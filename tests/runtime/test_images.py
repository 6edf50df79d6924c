"""Images that are too large for a NATS message: uploaded once, shown whole, replayed without the store."""

import base64
import hashlib
import json

from actors.audit.replay import replay
from actors.host.bootstrap import Runtime
from protocol.client import Client
from protocol.facts import Claim, MessagesAppended, SaidMessage
from protocol.formats.messages import encode
from tests.conftest import Json, layer


def picture(size: int) -> str:
    """Return a data URL of about *size* bytes."""
    return "data:image/png;base64," + base64.b64encode(bytes(index % 251 for index in range(size))).decode()


def shown(url: str) -> Json:
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"role": "user", "content": parts}


async def test_the_model_sees_a_large_image_as_it_was_sent(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    message = shown(picture(400_000))
    await talk.append([message])
    context = await talk.context()
    assert context.messages == [message]
    assert context.tokens < 2_000


async def test_a_view_with_an_image_is_rebuilt_without_the_store(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([shown(picture(200_000)), {"role": "assistant", "content": "a test pattern"}])
    context = await talk.context()
    found = replay(talk.at, await working.log.read(talk.at, after=0))
    assert found.divergence is None
    assert found.view_hash == context.hash


async def test_an_image_that_was_never_uploaded_does_not_stop_the_conversation(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer())
    claim = Claim(pointer="/content/1/image_url/url", sha256="0" * 63 + "1", bytes=100_000)
    await talk.say((MessagesAppended(messages=(SaidMessage(raw=encode(shown("")), claims=(claim,)),)),))
    await talk.append([{"role": "assistant", "content": "I see nothing"}, {"role": "user", "content": "go on"}])
    context = await talk.context()
    assert context.messages[0] == shown("artifact:" + claim.sha256)
    assert context.messages[-1] == {"role": "user", "content": "go on"}


async def test_images_that_left_with_their_result_are_read_back_as_images(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy={"preset": "holmes", "budget": {"window": 8000, "reserve": 0}})
    # one of them is so large that it is uploaded by itself
    urls = [f"data:image/png;base64,{'iVBORw0KGgo' * (9000 if at == 1 else 30)}{at:04}" for at in range(3)]
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    asked = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    call = {"role": "assistant", "content": None, "tool_calls": [asked]}
    found = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "Three."}, *images]}
    await talk.append([{"role": "user", "content": "look"}, call, found])
    (block,) = (await talk.context()).messages[-1]["content"]
    for url, image in zip(urls, images, strict=True):
        key = hashlib.sha256(url.encode()).hexdigest()[:16]
        assert key in block["text"]
        seen = await talk.answer_read_content(json.dumps({"key": key}))
        assert seen[1] == image
        assert (await talk.answer_read(json.dumps({"key": key}))).startswith("[image/png, ")
