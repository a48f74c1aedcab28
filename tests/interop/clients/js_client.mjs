// Makes calls with the current @a2a-js/sdk and reports what its caller gets to see.
//
// Reads a JSON array of calls on standard input, writes one JSON line per call on standard output:
// `{"outcome": "result" | "error", "class", "message", "code", "data", "http_status"}`. A call is
// `{"url", "binding": "JSONRPC" | "HTTP+JSON", "protocol": "1.0" | "0.3", "op", "task", "context", "token",
// "version", "reauthenticate", "discover"}`.
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
  createAuthenticatingFetchWithRetry,
} from "@a2a-js/sdk/client";

// Longer than any answer of a host on this machine takes.
const TIMEOUT_MS = 30_000;

const message = ({ task = "", context = "" }) => ({
  tenant: "",
  message: {
    messageId: "m-1", contextId: context, taskId: task, role: 1,
    parts: [{ content: { $case: "text", value: "hello" }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined, extensions: [], referenceTaskIds: [],
  },
  configuration: undefined,
  metadata: undefined,
});

async function first(stream) {
  for await (const event of stream) return event;
  return undefined;
}

async function count(stream, call) {
  call.events = 0;
  for await (const _ of stream) call.events += 1;
}

const operations = {
  get: (c, call) => c.getTask({ tenant: "", id: call.task ?? "" }),
  cancel: (c, call) => c.cancelTask({ tenant: "", id: call.task, metadata: undefined }),
  send: (c, call) => c.sendMessage(message(call)),
  stream: (c, call) => first(c.sendMessageStream(message(call))),
  subscribe: (c, call) => first(c.resubscribeTask({ tenant: "", id: call.task })),
  stream_all: (c, call) => count(c.sendMessageStream(message(call)), call),
  subscribe_all: (c, call) => count(c.resubscribeTask({ tenant: "", id: call.task }), call),
  push: (c, call) => c.createTaskPushNotificationConfig({
    tenant: "", id: "p-1", taskId: call.task, url: "http://127.0.0.1:9/push", token: "", authentication: undefined,
  }),
  card: (c) => c.getAgentCard(),
};

// What the network said is kept beside what the SDK made of it.
function recording(call, network) {
  return async (url, init) => {
    const headers = new Headers(init?.headers);
    if (call.token && !headers.has("authorization")) headers.set("authorization", `Bearer ${call.token}`);
    if (call.version) headers.set("A2A-Version", call.version);
    const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    network.status = response.status;
    network.retryAfter = response.headers.get("retry-after");
    return response;
  };
}

// Starts without a usable token and fetches one when challenged, as OAuth clients do.
const reauthenticate = {
  headers: async () => ({ Authorization: "Bearer stale" }),
  shouldRetryWithHeaders: async (request, response) =>
    response.status === 401 && response.headers.has("WWW-Authenticate")
      ? { Authorization: "Bearer good" }
      : undefined,
};

async function run(call) {
  const network = {};
  const fetchImpl = call.reauthenticate
    ? createAuthenticatingFetchWithRetry(recording(call, network), reauthenticate)
    : recording(call, network);
  const card = {
    name: "agent", description: "", version: "1",
    supportedInterfaces: [{ url: call.url, protocolBinding: call.binding, tenant: "", protocolVersion: call.protocol }],
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: [] },
    defaultInputModes: [], defaultOutputModes: [], skills: [], signatures: [],
  };
  const transports = [JsonRpcTransportFactory, RestTransportFactory]
    .map((Factory) => new Factory({ fetchImpl, legacyCompat: { enabled: true } }));
  const cardResolver = new DefaultAgentCardResolver({ fetchImpl, legacyCompat: { enabled: true } });
  const factory = new ClientFactory({ transports, cardResolver });
  try {
    // Who discovers knows no more than the host's address: the agent card says the rest.
    const client = call.discover
      ? await factory.createFromUrl(call.discover)
      : await factory.createFromAgentCard(card);
    await operations[call.op](client, call);
    return { outcome: "result", events: call.events };
  } catch (error) {
    return { outcome: "error", ...seen(error), events: call.events, http_status: network.status, retry_after: network.retryAfter };
  }
}

// Errors out of a stream arrive wrapped: the typed one is the cause.
function seen(error) {
  const typed = error.constructor.name === "Error" && error.cause instanceof Error ? error.cause : error;
  return {
    class: typed.name, message: typed.message, code: typed.envelopeCode ?? null,
    data: typed.data ?? typed.metadata ?? null,
  };
}

let input = "";
for await (const chunk of process.stdin) input += chunk;
for (const call of JSON.parse(input)) console.log(JSON.stringify(await run(call)));
