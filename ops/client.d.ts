// The types of hubbub.js. Written by `python -m ops client` from the OpenAPI document and ops/client.d.ts.

/** A code of the contract, or one of the client's own: `Offline`, `BadResponse` and `unconfirmed`. */
export type Code = /* codes */
  | "Offline" | "BadResponse" | "bad_request" | "too_long" | "slow_down" | "not_matched" | "unconfirmed";

/** A refused call or frame. `code` is the contract's, or `Offline` when no response has arrived. */
export class HubbubError extends Error {
  constructor(code: string, message?: string, details?: { status?: number; retryAfter?: number });
  readonly code: Code;
  /** The HTTP status; 0 without a response. */
  readonly status: number;
  /** Seconds to wait before a retry; 0 if the server names none. */
  readonly retryAfter: number;
}

export type Token = string | ((isRefused: boolean) => string | Promise<string>);

export interface Options {
  /** A bearer token, or a function that returns one. It is called with true after a token was refused. */
  token?: Token;
  /** The address of the sockets (`wss://…`). The default is the one that the stage names. */
  socket?: string;
  fetch?: typeof fetch;
  WebSocket?: typeof WebSocket;
  /** Called after each call. */
  onCall?(call: { name: string; method: string; path: string; status: number; headers?: Headers; ms: number }): void;
}

export interface CallOptions {
  idempotencyKey?: string;
  ifMatch?: string | null;
  signal?: AbortSignal;
  /** Whether the token is sent. The default is: only with calls that need one. */
  auth?: boolean;
}

/** A list: await it for its first page, or iterate over all items. */
export type Pages<T extends { items: unknown[] }> = Promise<T> & AsyncIterable<T["items"][number]>;

export interface LiveOptions<T> {
  /** Gets a refusal. */
  onError?(error: HubbubError): void;
  /** Gets whether the topic is connected. */
  onState?(isConnected: boolean): void;
  /** Loads the value while the topic is not connected. */
  poll?(): Promise<T>;
  /** Milliseconds between two calls of `poll`. The default is 5000. */
  every?: number;
}

export interface BoardTopic {
  board: string;
  season: number;
  players: number;
  items: Entries["items"];
}

/** The value of a topic, by the beginning of its name. */
export type Value<Topic extends string> =
  Topic extends `views:${string}` ? PageViews
  : Topic extends `leaderboard:${string}` ? BoardTopic | null
  : Topic extends `challenge:${string}` ? ChallengeStatistics | null
  : Topic extends `product:${string}` ? RatingStatistics | null
  : unknown;

/** An event with its value. */
export type DetailEvent<T> = Event & { readonly detail: T };

export interface ChatEvents {
  state: DetailEvent<Chat["state"]>;
  message: DetailEvent<{ text: string; time: string }>;
  typing: DetailEvent<unknown>;
  /** A refused frame. */
  error: DetailEvent<{ code: Code }>;
  /** There is no socket. */
  failed: DetailEvent<HubbubError>;
}

/** A place in a lobby of the chat. */
export interface Chat extends EventTarget {
  addEventListener<Name extends keyof ChatEvents>(type: Name, listener: (event: ChatEvents[Name]) => void, options?: AddEventListenerOptions): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: AddEventListenerOptions | boolean): void;
  readonly state: "offline" | "waiting" | "matched" | "idle";
  readonly isOpen: boolean;
  /** The token with which another connection can take this place. */
  readonly resumeToken: string;
  /** The name of the last pair. It stays the same when one of the two resumes. */
  readonly pair?: string;
  /**
   * Resolves when the partner's client has the text. `not_matched`: the partner has left. `unconfirmed`: its client
   * has not confirmed the text within some seconds, and may be out of reach.
   */
  sendMessage(text: string): Promise<void>;
  sendTyping(): Promise<void>;
  /** Leave the partner and wait for another. */
  next(): Promise<void>;
  /** Wait for a partner. */
  find(): Promise<void>;
  /** Leave the partner and the lobby. */
  leave(): Promise<void>;
  /** Report the partner, or the last one within a minute, with the last messages, and leave it for good. */
  report(reason: string): Promise<void>;
  /** Leave for good. */
  close(): void;
  /** Stop without giving up the place, before a page is unloaded. */
  suspend(): void;
}

export class Hubbub {
  /** `api` is the address of a stage. */
  constructor(api: string | URL, options?: Options);
  /** Use this token from now on. */
  set token(token: Token);
  /** The guest that this browser keeps for the stage. */
  readonly guest: Guest | null;
  /** Sign in as the guest that this browser keeps, or as a new one with `fresh`. Another name renames the guest. A change dispatches `hubbub-guest` on the document, with the guest as `detail`. */
  signInAsGuest(name?: string, options?: { fresh?: boolean }): Promise<Guest>;
  /** Call a function with the current value of a topic, and again after each change. Return a function that stops it. */
  live<Topic extends string>(topic: Topic, onValue: (value: Value<Topic>) => void, options?: LiveOptions<Value<Topic>>): () => void;
  /** Enter a lobby of the chat. `resume` is the token of a suspended place. */
  chat(lobby?: string, options?: { interests?: string[]; resume?: string }): Chat;
  /** Send a call by its name, and return its status, headers and body. */
  request<Name extends CallName>(name: Name, args?: Parameters<Hubbub[Name]>[0], options?: CallOptions): Promise<{ status: number; headers: Headers; etag: string | null; body: Awaited<ReturnType<Hubbub[Name]>> }>;
  /* calls */
}

type CallName = Exclude<keyof Hubbub, "token" | "guest" | "signInAsGuest" | "live" | "chat" | "request">;

/** A widget: docs/embed.md. */
export interface HubbubElement extends HTMLElement {
  /** A bearer token of the visitor. */
  token: string;
  /** Returns the visitor's token. */
  getToken: (() => string | Promise<string>) | null;
  /** Words that replace those of the widget. */
  words: Record<string, unknown>;
  /** Begin again. */
  refresh(): void;
}

declare global {
  interface HTMLElementTagNameMap {
    "hubbub-views": HubbubElement;
    "hubbub-leaderboard": HubbubElement;
    "hubbub-challenge": HubbubElement;
    "hubbub-comments": HubbubElement;
    "hubbub-chat": HubbubElement;
  }
  interface HTMLElementEventMap {
    "hubbub-unauthorized": CustomEvent<{ message: string }>;
    "hubbub-posted": CustomEvent<Comment>;
    "hubbub-edited": CustomEvent<Comment>;
    "hubbub-deleted": CustomEvent<Comment>;
    "hubbub-replied": CustomEvent<Reply>;
    "hubbub-scored": CustomEvent<{ score: number }>;
    "hubbub-found": CustomEvent<SubmissionResult>;
    "hubbub-state": CustomEvent<{ state: Chat["state"] | "out" }>;
  }
  interface DocumentEventMap {
    "hubbub-guest": CustomEvent<Guest>;
  }
}

/* schemas */
