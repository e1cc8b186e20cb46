// The page's clients of the API: `hubbub.js` with the visitor's token, a time limit, and a record of all calls.

import { api, socket } from "./config.js";
import { Hubbub, HubbubError } from "./hubbub.js";
import * as session from "./session.js";
import { words } from "./words.js";

const TIMEOUT = 8000; // ms until a call without a response counts as offline
const MAX_ROWS = 12; // different calls

/** The calls and frames of a client: their number, their cost, and the latest of each. */
export class CallLog extends EventTarget {
  rows = new Map(); // by method and path; the latest call comes last
  made = 0;
  frames = 0;
  read = 0;
  write = 0;

  /** Record a call, as `onCall` of a client. */
  recordCall({ method, path, status, headers, ms }) {
    const cost = parseCapacity(headers?.get("X-Consumed-Capacity"));
    const isBad = status !== 404 && !(status >= 200 && status < 300); // 404 is an expected result
    this.#record(method, path, { status: status || "–", took: ms, isBad, cost });
    this.read += cost?.read ?? 0;
    this.write += cost?.write ?? 0;
  }

  /** Record a frame of a socket. */
  recordFrame({ way, name }) {
    this.frames += 1;
    this.#record(way, name, { status: "frame" });
  }

  #record(method, path, latest) {
    const name = `${method} ${path}`;
    const row = { method, path, times: (this.rows.get(name)?.times ?? 0) + 1, ...latest };
    this.rows.delete(name);
    this.rows.set(name, row);
    if (this.rows.size > MAX_ROWS) this.rows.delete(this.rows.keys().next().value);
    this.made += 1;
    this.dispatchEvent(new Event("call"));
  }
}

/** Create a client whose calls go to a log. */
export function createClient(log = new CallLog()) {
  const client = new Hubbub(api, {
    socket: socket || undefined,
    token: session.token,
    fetch: (url, options) => fetch(url, { ...options, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) }),
    onCall: (call) => log.recordCall(call),
  });
  session.changes.addEventListener("change", () => { client.token = session.token; }); // and forget the one before
  return client;
}

export const isOffline = (error) => error instanceof HubbubError && error.code === "Offline";

/** Return whether the same call may succeed later. */
export const isTransient = (error) => error instanceof HubbubError && (!error.status || error.status >= 500 || error.status === 429);

/** Return the text of an error for the visitor. A bug in this code is also logged to the console. */
export function explain(error) {
  if (!(error instanceof HubbubError)) console.error(error);
  return isOffline(error) ? words.notResponding : error.code === "BadResponse" ? words.status(error.status) : error.message;
}

/** Parse "read=0.5, write=2". Return null when the stage does not report consumed capacity. */
function parseCapacity(header) {
  const found = /^read=([\d.]+), write=([\d.]+)$/.exec(header ?? "");
  return found && { read: Number(found[1]), write: Number(found[2]) };
}
