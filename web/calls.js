// The calls to the API. Each panel has its own, which remembers what was asked, how often, and what it cost.

import { address } from "./config.js";
import { authorization } from "./session.js";

const PATIENCE = 8000; // ms until a call that is not answered counts as offline
const KEPT = 12; // different calls

/** Nobody answered. */
export class Offline extends Error {
  name = "Offline";
}

/** The API said no; `code` is the contract's. */
export class Refused extends Error {
  constructor(status, { Code, Message }, retryAfter) {
    super(Message ?? `The answer was ${status}.`);
    Object.assign(this, { status, code: Code ?? "", passes: status >= 500 || status === 429, retryAfter });
  }
}

export class Calls extends EventTarget {
  rows = new Map(); // by method and path; the one that was used last comes last
  made = 0;
  frames = 0;
  read = 0;
  write = 0;

  /** Read something; answers the decoded JSON. Throws Offline or Refused, as `ask` does. */
  async get(path, query) {
    return (await this.ask("GET", path, { query })).body;
  }

  /** Make a call, as yourself if `mine`; answers its status, its body and its ETag. */
  async ask(method, path, { query, body, headers = {}, mine = method !== "GET" } = {}) {
    const began = performance.now();
    const options = { method, cache: "no-store", signal: AbortSignal.timeout(PATIENCE), headers: { ...headers } };
    if (mine) Object.assign(options.headers, authorization());
    if (body) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response, answer;
    try {
      response = await fetch(address(path, query), options);
      answer = await response.json().catch(() => ({}));
    } catch {
      this.note(method, path, { status: "–", took: performance.now() - began, isBad: true });
      throw new Offline("Hubbub does not answer.");
    }
    this.note(method, path, {
      status: response.status,
      took: performance.now() - began,
      isBad: !response.ok && response.status !== 404, // that something is not there is an answer
      cost: units(response.headers.get("X-Consumed-Capacity")),
    });
    if (!response.ok) {
      throw new Refused(response.status, answer, Number(response.headers.get("Retry-After")));
    }
    return { status: response.status, body: answer, etag: response.headers.get("ETag") };
  }

  /** Remember a frame of a socket. */
  noteFrame(way, name) {
    this.frames += 1;
    this.note(way, name, { status: "frame" });
  }

  /** Remember a call. */
  note(method, path, latest) {
    const name = `${method} ${path}`;
    const row = { method, path, times: (this.rows.get(name)?.times ?? 0) + 1, ...latest };
    this.rows.delete(name);
    this.rows.set(name, row);
    if (this.rows.size > KEPT) this.rows.delete(this.rows.keys().next().value);
    this.made += 1;
    this.read += latest.cost?.read ?? 0;
    this.write += latest.cost?.write ?? 0;
    this.dispatchEvent(new Event("call"));
  }
}

/** Read "read=0.5, write=2"; null where the stage does not say what its calls consume. */
function units(header) {
  const found = /^read=([\d.]+), write=([\d.]+)$/.exec(header ?? "");
  return found && { read: Number(found[1]), write: Number(found[2]) };
}
