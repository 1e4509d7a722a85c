// The server's JSON, and its stream of updates.

let csrf = "";

async function answer(response) {
  const content = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(content.error || `the server answered ${response.status}`);
  return content;
}

export async function get(path) {
  return answer(await fetch(`/api/${path}`, { credentials: "same-origin" }));
}

export async function post(path, content) {
  return answer(await fetch(`/api/${path}`, {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(content),
  }));
}

export async function about() {
  const found = await get("about");
  csrf = found.csrf;
  return found;
}

// Calls back with each update; `lost` when the server is gone. The browser connects again by itself.
export function updates(onupdate, onlost) {
  const stream = new EventSource("/api/updates");
  stream.onmessage = (message) => onupdate(JSON.parse(message.data));
  stream.onerror = () => onlost();
  return stream;
}
