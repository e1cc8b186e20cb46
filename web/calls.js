// The calls to the API: each is timed, and noted in the table of calls.

const PATIENCE = 5000; // ms until a call that is not answered counts as offline
const KEPT = 12; // rows

export class Offline extends Error {}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.passes = status >= 500 || status === 429; // asking again can help
  }
}

/** Write a path with its query, leaving out what is not said. */
export function path(name, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value);
  return said.length ? `${name}?${new URLSearchParams(said)}` : name;
}

/** Ask the API; answers the decoded JSON, or a Blob. Throws Offline or Refused. */
export async function call(method, target, { body, blob = false } = {}) {
  const began = performance.now();
  const options = { method, signal: AbortSignal.timeout(PATIENCE), cache: blob ? "reload" : "no-store" };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  let response, answer;
  try {
    response = await fetch(target, options);
    answer = response.ok && blob ? await response.blob() : await response.json().catch(() => ({}));
  } catch {
    note(method, target, "no answer", performance.now() - began);
    throw new Offline("Hubbub does not answer.");
  }
  note(method, target, response.status, performance.now() - began);
  if (!response.ok) throw new Refused(response.status, answer.Message ?? `The answer was ${response.status}.`);
  return answer;
}

export const get = (name, query) => call("GET", path(name, query));

// The same call again changes its row in place, so that polling does not push the others out.
const rows = new Map();

function note(method, target, status, duration) {
  const name = `${method} ${target}`;
  const row = rows.get(name) ?? addRow(method, target);
  row.times += 1;
  row.cells[2].textContent = status;
  row.cells[2].classList.toggle("bad", !(status < 400));
  row.cells[3].textContent = `${duration.toFixed(duration < 10 ? 1 : 0)} ms`;
  row.cells[4].textContent = row.times;
  rows.delete(name); // the map's order is that of the latest use
  rows.set(name, row);
  if (rows.size > KEPT) {
    const [oldest, { element }] = rows.entries().next().value;
    rows.delete(oldest);
    element.remove();
  }
}

function addRow(method, target) {
  const element = document.createElement("tr");
  const cells = ["method", "path", "number", "number", "number"].map((kind) => {
    const cell = element.appendChild(document.createElement("td"));
    cell.className = kind;
    return cell;
  });
  cells[0].textContent = method;
  cells[1].textContent = cells[1].title = decodeURIComponent(target);
  document.getElementById("calls").prepend(element);
  return { element, cells, times: 0 };
}
