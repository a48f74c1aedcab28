// How JavaScript's clients read documents: `response.json()`, which decodes UTF-8 with replacement characters, takes
// off a byte order mark, and parses.
//
// Usage: read.mjs FILE      FILE holds documents, each after its length (four bytes, little-endian); a line of JSON each
import { readFileSync } from 'node:fs'

function* documents(data) {
  for (let at = 0; at < data.length;) {
    const length = data.readUInt32LE(at)
    yield data.subarray(at + 4, at + 4 + length)
    at += 4 + length
  }
}

const hexed = text => [...Array(text.length).keys()].map(i => text.charCodeAt(i).toString(16).padStart(4, '0')).join('')
const given = value => value !== undefined && value !== null

function seen(document) {
  let value
  try {
    value = JSON.parse(new TextDecoder().decode(document))
  } catch {
    return { ok: false }
  }
  const isObject = given(value) && typeof value === 'object' && !Array.isArray(value)
  const view = { ok: true, object: isObject }
  if (isObject) {
    const own = name => (Object.hasOwn(value, name) ? value[name] : undefined)
    const error = own('error')
    Object.assign(view, { names: Object.keys(value).map(hexed), error: given(error), result: given(own('result')) })
    if (given(error) && typeof error === 'object' && !Array.isArray(error)) {
      const { code, message } = error
      const isPlain = typeof code === 'number' && Math.abs(code) < 1e15
      Object.assign(view, { code: isPlain ? code : null, message: typeof message === 'string' ? hexed(message) : null })
    }
  }
  return view
}

for (const document of documents(readFileSync(process.argv[2]))) console.log(JSON.stringify(seen(document)))
