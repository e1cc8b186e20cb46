// The client of the API. Each panel has its own instance, which records its calls, their number and their cost.

import { buildUrl } from "./config.js";
import { authorization } from "./session.js";
import { words } from "./words.js";

const TIMEOUT = 8000; // ms until a call without a response counts as offline
const MAX_ROWS = 12; // different calls

/** The API did not respond. */
export class Offline extends Error {
  name = "Offline";
}

/** The API refused the call; `code` is the contract's. */
export class ApiError extends Error {
  constructor(status, { Code, Message }, retryAfter) {
    super(Message ?? words.status(status));
    Object.assign(this, { status, code: Code ?? "", isTransient: status >= 500 || status === 429, retryAfter });
  }
}

export class ApiClient extends EventTarget {
  rows = new Map(); // by method and path; the latest call comes last
  made = 0;
  frames = 0;
  read = 0;
  write = 0;

  /** Return the decoded JSON of a GET. Throws Offline or ApiError. */
  async get(path, query) {
    return (await this.request("GET", path, { query })).body;
  }

  /** Send a call, with the visitor's token if `mine`. Return its status, body and ETag. Throws Offline or ApiError. */
  async request(method, path, { query, body, headers = {}, mine = method !== "GET" } = {}) {
    const began = performance.now();
    const options = { method, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT), headers: { ...headers } };
    if (mine) Object.assign(options.headers, authorization());
    if (body) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response, json;
    try {
      response = await fetch(buildUrl(path, query), options);
      json = await response.json().catch(() => ({}));
    } catch {
      this.record(method, path, { status: "–", took: performance.now() - began, isBad: true });
      throw new Offline(words.notResponding);
    }
    this.record(method, path, {
      status: response.status,
      took: performance.now() - began,
      isBad: !response.ok && response.status !== 404, // 404 is an expected result
      cost: parseCapacity(response.headers.get("X-Consumed-Capacity")),
    });
    if (!response.ok) {
      throw new ApiError(response.status, json, Number(response.headers.get("Retry-After")));
    }
    return { status: response.status, body: json, etag: response.headers.get("ETag") };
  }

  /** Record a frame of a socket. */
  recordFrame(way, name) {
    this.frames += 1;
    this.record(way, name, { status: "frame" });
  }

  /** Record a call. */
  record(method, path, latest) {
    const name = `${method} ${path}`;
    const row = { method, path, times: (this.rows.get(name)?.times ?? 0) + 1, ...latest };
    this.rows.delete(name);
    this.rows.set(name, row);
    if (this.rows.size > MAX_ROWS) this.rows.delete(this.rows.keys().next().value);
    this.made += 1;
    this.read += latest.cost?.read ?? 0;
    this.write += latest.cost?.write ?? 0;
    this.dispatchEvent(new Event("call"));
  }
}

/** Parse "read=0.5, write=2". Return null when the stage does not report consumed capacity. */
function parseCapacity(header) {
  const found = /^read=([\d.]+), write=([\d.]+)$/.exec(header ?? "");
  return found && { read: Number(found[1]), write: Number(found[2]) };
}
