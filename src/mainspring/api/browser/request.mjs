// From what is typed to what is sent: a request, and the line for curl that sends the same. Knows no page and no key, so that
// node can test it and no key can get into a line that is shown.

const DOTS = /\/\.\.?(?=[/?]|$)/;

/**
 * What to send: { method, path, headers, body }. `operation`: { method, address, keyed }, keyed: it takes a key and a tenant.
 * `fields`: { parameters: [{ name, in, value }], media, body }. What is empty is not sent.
 */
export function build(operation, fields, tenant) {
  const of = (place) => fields.parameters.filter((given) => given.in === place && given.value !== "");
  const headers = of("header").map((given) => [given.name, given.value]);
  if (operation.keyed && tenant) headers.push(["Mainspring-Tenant", tenant]);
  if (fields.body) headers.push(["Content-Type", fields.media]);
  const query = of("query").map((given) => `${encodeURIComponent(given.name)}=${encodeURIComponent(given.value)}`).join("&");
  const path = of("path").reduce(
    (address, given) => address.replace(`{${given.name}}`, encodeURIComponent(given.value)),
    operation.address,
  );
  return { method: operation.method, path: query ? `${path}?${query}` : path, headers, body: fields.body || undefined };
}

/** Whether the path has a name "." or "..": browsers take that, escaped or not, for "here" and "one up", and ask for something else. */
export function isAstray(request) {
  return DOTS.test(request.path);
}

/** The same for a shell. `operation` also says whether it streams. */
export function curl(origin, operation, request) {
  const words = ["curl"];
  if (request.method !== "GET") words.push(`-X ${request.method}`);
  if (operation.streams) words.push("-N");
  if (isAstray(request)) words.push("--path-as-is");
  if (operation.keyed) words.push('-H "Authorization: Bearer $MAINSPRING_KEY"');
  for (const [name, value] of request.headers) words.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.body) words.push(`--data-raw ${quoted(request.body)}`);
  return [...words, quoted(origin + request.path)].join(" ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
