"""Makes calls with a2a-sdk 0.3.26, a client that knows only protocol 0.3, and reports what its caller gets to see.

Reads a JSON array of calls on standard input, writes one JSON line per call on standard output:
`{"outcome": "result" | "error", "class", "message", "code", "data", "http_status"}`.
A call is `{"url", "op", "task", "token"}`; no A2A-Version is sent, as this version did not know it.
"""
import httpx

from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.types import (Message, MessageSendParams, Part, PushNotificationConfig, Role, TaskIdParams,
                       TaskPushNotificationConfig, TaskQueryParams, TextPart)

from calls import TIMEOUT_S, error_seen, first, serve


def message(call):
    return MessageSendParams(message=Message(
        message_id="m-1", role=Role.user, parts=[Part(root=TextPart(text="hello"))], task_id=call.get("task") or None))


async def perform(transport, call):
    op, task = call["op"], call.get("task", "")
    if op == "get":
        return await transport.get_task(TaskQueryParams(id=task))
    if op == "cancel":
        return await transport.cancel_task(TaskIdParams(id=task))
    if op == "send":
        return await transport.send_message(message(call))
    if op == "stream":
        return await first(transport.send_message_streaming(message(call)))
    if op == "subscribe":
        return await first(transport.resubscribe(TaskIdParams(id=task)))
    if op == "push":
        config = PushNotificationConfig(url="http://127.0.0.1:9/push")
        return await transport.set_task_callback(
            TaskPushNotificationConfig(task_id=task, push_notification_config=config))
    raise ValueError(f"unknown op {op}")


async def run(call):
    headers = {"Authorization": f"Bearer {call['token']}"}
    async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False) as http:
        try:
            await perform(JsonRpcTransport(http, url=call["url"]), call)
            return {"outcome": "result"}
        except Exception as error:  # whatever it is, it is what a caller sees
            inner = getattr(error, "error", None)
            return error_seen(error, code=getattr(inner, "code", None), data=getattr(inner, "data", None),
                              http_status=getattr(error, "status_code", None))


if __name__ == "__main__":
    serve(run)
