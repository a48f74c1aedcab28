-- The rewriting of JSON-RPC errors as an operator would script it: an A2A error gets its ErrorInfo (E-1), its legacy data is
-- read for what may stay (E-5), its message stays only if it tells nothing (D-1), "not yours" becomes the fixed
-- "not found" (O-1), and of the headers only those go on that may (D-3). Shared by nginx and Envoy.
local found, json = pcall(require, "cjson")
if not found then json = require("dkjson") end

local CODES = {
  [-32700] = { "PARSE_ERROR", "Invalid JSON payload" },
  [-32600] = { "INVALID_REQUEST", "Request payload validation error" },
  [-32601] = { "METHOD_NOT_FOUND", "Method not found" },
  [-32602] = { "INVALID_PARAMS", "Invalid parameters" },
  [-32603] = { "INTERNAL_ERROR", "Internal error" },
  [-32001] = { "TASK_NOT_FOUND", "Task not found" },
  [-32002] = { "TASK_NOT_CANCELABLE", "Task cannot be canceled" },
  [-32003] = { "PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications are not supported" },
  [-32004] = { "UNSUPPORTED_OPERATION", "This operation is not supported" },
  [-32005] = { "CONTENT_TYPE_NOT_SUPPORTED", "Incompatible content types" },
  [-32006] = { "INVALID_AGENT_RESPONSE", "Invalid agent response" },
  [-32007] = { "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "Extended agent card is not configured" },
  [-32008] = { "EXTENSION_SUPPORT_REQUIRED", "A required extension is not supported" },
  [-32009] = { "VERSION_NOT_SUPPORTED", "The protocol version is not supported" },
}
local ALWAYS_CANONICAL = { [-32001] = true, [-32603] = true, [-32700] = true, [-32600] = true }
local TASK_ADDRESSED = { GetTask = true, CancelTask = true, SubscribeToTask = true }
local METADATA = { "supportedVersions", "requested", "mediaType", "extension" }
local TELLING = { "://", "[/\\][%w_.-]+[/\\]", "@", "=", "%x%x%x%x%x%x%x%x%-%x%x%x%x", "[%w+/_-]" .. ("[%w+/_-]"):rep(23), "%.py", "at %w+%.",
  "exception", "error:", "traceback" }
local WORDS = { "tenant", "workspace", "organization", "org", "account", "principal", "owner", "member", "subject", "team", "user" }
local KEPT = {
  [":status"] = true, ["content-type"] = true, ["content-length"] = true, ["www-authenticate"] = true,
  ["retry-after"] = true, ["allow"] = true, ["a2a-version"] = true, ["a2a-extensions"] = true, ["cache-control"] = true,
  ["date"] = true, ["vary"] = true, ["traceparent"] = true, ["tracestate"] = true, ["connection"] = true,
  ["transfer-encoding"] = true,
}
local CAP = 1048576

local rewrite = {}

-- What an answer needs of the request: its id as JSON, as it was written where it is a number, and the task that it names.
function rewrite.call(body)
  local decoded, call = pcall(json.decode, body or "")
  if not decoded or type(call) ~= "table" then return { id = "null" } end
  local params = type(call.params) == "table" and call.params or {}
  local id = type(call.id) == "number" and body:match('"id"%s*:%s*(-?%d+)') or json.encode(call.id)
  return { id = id, task = TASK_ADDRESSED[call.method] and params.id or nil }
end

-- Whether the first bytes of an answer say that it is a success.
function rewrite.passes(status, first)
  return status < 400 and first:find('^%s*{[^{]*"result"%s*:') ~= nil
end

-- Whether a header may go on with a rewritten answer.
function rewrite.keeps(name)
  name = name:lower()
  return KEPT[name] or name:find("^ratelimit%-") ~= nil or name:find("^access%-control%-") ~= nil
end

local function may_be_told(message)
  if type(message) ~= "string" or #message > 256 or message:find("%c") then return false end
  local lower = message:lower()
  for _, pattern in ipairs(TELLING) do
    if lower:find(pattern) then return false end
  end
  for word in lower:gmatch("%a+") do
    for _, told in ipairs(WORDS) do
      if word == told or word == told .. "s" then return false end
    end
  end
  return true
end

-- The new body of an error, or nil to leave it.
function rewrite.answer(status, body, call)
  local decoded, answer = pcall(json.decode, body)
  local code, message, data = -32603, nil, nil
  if decoded and type(answer) == "table" and type(answer.error) == "table" then
    code, message, data = answer.error.code, answer.error.message, answer.error.data
  end
  if status == 403 and call.task then code = -32001 end
  local known = CODES[code]
  if not known then return nil end
  if ALWAYS_CANONICAL[code] or not may_be_told(message) then message = known[2] end
  local metadata
  if code == -32001 then
    metadata = call.task and { taskId = call.task }
  elseif type(data) == "table" then
    for _, key in ipairs(METADATA) do
      if type(data[key]) == "string" and may_be_told(data[key]) then
        metadata = metadata or {}
        metadata[key] = data[key]
      end
    end
  end
  local info = { ["@type"] = "type.googleapis.com/google.rpc.ErrorInfo", reason = known[1], domain = "a2a-protocol.org", metadata = metadata }
  local fault = { code = code, message = message, data = { info } }
  local text = '{"jsonrpc":"2.0","id":' .. call.id .. ',"error":' .. json.encode(fault) .. "}"
  if #text > CAP then
    info.metadata = nil
    text = '{"jsonrpc":"2.0","id":' .. call.id .. ',"error":' .. json.encode(fault) .. "}"
  end
  return text
end

return rewrite
