-- The rewriting of the measured errors as an operator would script it: an A2A error gets its ErrorInfo (E-1),
-- "not yours" becomes the fixed "not found" (O-1). Shared by nginx and Envoy.
local found, json = pcall(require, "cjson")
if not found then json = require("dkjson") end

local REASONS = { [-32001] = "TASK_NOT_FOUND", [-32004] = "UNSUPPORTED_OPERATION" }
local MESSAGES = { [-32001] = "Task not found", [-32004] = "This operation is not supported" }
local TASK_ADDRESSED = { GetTask = true, CancelTask = true, SubscribeToTask = true }

local rewrite = {}

-- What an answer needs of the request: its id as JSON, and the task that it names.
function rewrite.call(body)
  local decoded, call = pcall(json.decode, body or "")
  if not decoded or type(call) ~= "table" then return { id = "null" } end
  local params = type(call.params) == "table" and call.params or {}
  return { id = json.encode(call.id), task = TASK_ADDRESSED[call.method] and params.id or nil }
end

-- Whether the first bytes of an answer say that it is a success.
function rewrite.passes(status, first)
  return status < 400 and first:find('^%s*{[^{]*"result"%s*:') ~= nil
end

-- The new body of an error, or nil to leave it.
function rewrite.answer(status, body, call)
  local decoded, answer = pcall(json.decode, body)
  local code = -32603
  if decoded and type(answer) == "table" and type(answer.error) == "table" then code = answer.error.code end
  if status == 403 and call.task then code = -32001 end
  if not REASONS[code] then return nil end
  local metadata = code == -32001 and call.task and ',"metadata":{"taskId":' .. json.encode(call.task) .. "}" or ""
  return '{"jsonrpc":"2.0","id":' .. call.id .. ',"error":{"code":' .. code .. ',"message":"' .. MESSAGES[code]
    .. '","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"' .. REASONS[code]
    .. '","domain":"a2a-protocol.org"' .. metadata .. "}]}}"
end

return rewrite
