// A legacy host built with @a2a-js/sdk 0.3.14: protocol 0.3 on Express.
//
// One process serves the same agent several times. What differs per path is how its owner guards
// tasks against other users (see GUARDS). The user is the bearer token. Prints `listening PORT`
// once it accepts connections. ESM on purpose: the CommonJS builds of `server` and `server/express`
// do not share their error class, and such a host answers -32603 to everything.
import express from "express";
import { A2AError, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";

// How a task of somebody else is refused:
//   scoped   the store looks only among the caller's own tasks
//   object   the store refuses, with ids in an object in the error's data
//   guard    a middleware refuses before the SDK sees the call: 403 with a framework's body and headers
const GUARDS = ["scoped", "object", "guard"];

const bearer = (request) => (request.header("authorization") ?? "").replace(/^Bearer /, "").trim();

class GuardedStore extends InMemoryTaskStore {
  owners = new Map();

  constructor(guard) {
    super();
    this.guard = guard;
  }

  async save(task, context) {
    if (!this.owners.has(task.id)) this.owners.set(task.id, context?.user?.userName);
    return super.save(task, context);
  }

  foreignOwner(id, user) {
    const owner = this.owners.get(id);
    return owner !== undefined && owner !== user ? owner : undefined;
  }

  async load(id, context) {
    const owner = this.foreignOwner(id, context?.user?.userName);
    if (owner === undefined) return super.load(id, context);
    if (this.guard === "object") {
      throw A2AError.invalidParams("Access denied to task", { task_id: id, owner_principal: owner });
    }
    return undefined;
  }
}

// Finishes every task at once, so that there is something to read and nothing left to cancel.
const executor = {
  async execute(context, bus) {
    bus.publish({ kind: "task", id: context.taskId, contextId: context.contextId, status: { state: "completed" } });
    bus.finished();
  },
  async cancelTask() {},
};

const app = express();
const listener = app.listen(0, "127.0.0.1", () => {
  const { port } = listener.address();
  for (const guard of GUARDS) {
    const store = new GuardedStore(guard);
    const card = {
      name: `legacy-${guard}`, description: "finishes at once", version: "1", protocolVersion: "0.3.0",
      url: `http://127.0.0.1:${port}/${guard}`, preferredTransport: "JSONRPC",
      defaultInputModes: ["text"], defaultOutputModes: ["text"], skills: [],
      capabilities: { streaming: true, pushNotifications: false }, supportsAuthenticatedExtendedCard: false,
    };
    const refuse = (request, response, next) => {
      const { params } = request.body ?? {};
      const id = params?.taskId ?? params?.id ?? params?.message?.taskId;
      const owner = guard === "guard" ? store.foreignOwner(id, bearer(request)) : undefined;
      if (owner === undefined) return next();
      return response.status(403).set({ "X-Tenant": owner, "Set-Cookie": `last=${id}` })
        .json({ message: `Task ${id} belongs to ${owner}`, error: "Forbidden", statusCode: 403 });
    };
    const middlewares = guard === "guard" ? [express.json(), refuse] : [];
    // The card of the first interface, below the address that the caller used.
    if (guard === GUARDS[0]) {
      app.get("/.well-known/agent-card.json", (request, response) =>
        response.json({
          ...card, url: `http://${request.headers.host}/${guard}`,
          additionalInterfaces: [
            { url: `http://${request.headers.host}/${guard}`, transport: "JSONRPC" },
            { url: `http://${request.headers.host}/rest-${guard}`, transport: "HTTP+JSON" },
          ],
        }));
    }
    const options = {
      requestHandler: new DefaultRequestHandler(card, store, executor),
      userBuilder: async (request) => ({ isAuthenticated: true, userName: bearer(request) }),
    };
    app.use(`/${guard}`, ...middlewares, jsonRpcHandler(options));
    app.use(`/rest-${guard}`, ...middlewares, restHandler(options));
  }
  console.log(`listening ${port}`);
});
