// The sockets of the client (hubbub.js): a connection that reconnects, and one that follows live values.

import { HubbubError } from "./core.js";

const MINUTE = 60_000, HOUR = 60 * MINUTE; // ms

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A socket that reconnects. It asks for `resume` tokens if it chats, and sends pings so that it stays open.
export class Connection extends EventTarget {
  #address; #query; #WebSocket; #findToken; #socket = null; #tries = 0; #timers = []; #waiting = new Map(); #ref = 0; #isClosed = false;

  constructor(address, query, options, resumeToken) {
    super();
    this.#query = query;
    this.resumeToken = resumeToken;
    this.#WebSocket = options.WebSocket ?? WebSocket;
    this.#findToken = options.findToken;
    Promise.resolve(address).then((found) => {
      this.#address = found;
      this.#open();
    }, (error) => this.#emit("failed", error));
  }

  get isOpen() { return this.#socket?.readyState === 1; }

  /** Send a frame. Resolve when it has taken effect. Rejects with HubbubError. */
  send(frame) {
    const ref = String(++this.#ref);
    return new Promise((resolve, reject) => {
      if (!this.post({ ...frame, ref })) return reject(new HubbubError("Offline", "The socket is not connected."));
      this.#waiting.set(ref, { resolve, reject });
    });
  }

  /** Send a frame that gets no answer. Return whether the socket is open. */
  post(frame) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  suspend() {
    this.#isClosed = true;
    this.#end();
  }

  close() {
    this.#socket?.close(1000);
    this.suspend();
  }

  async #open() {
    const token = await this.#findToken?.();
    if (this.#isClosed) return;
    const url = new URL(this.#address), before = this.#socket;
    for (const [name, value] of Object.entries(this.#query)) url.searchParams.set(name, value);
    if (this.resumeToken) url.searchParams.set("resume", this.resumeToken);
    if (token) url.searchParams.set("token", token);
    const socket = new this.#WebSocket(url);
    const post = (action) => this.post({ action });
    socket.onopen = () => {
      if (this.#isClosed) return socket.close(1000);
      this.#end(); // the frames of the connection before, whose effect is unknown
      this.#socket = socket;
      this.#tries = 0;
      before?.close();
      if (!this.#query.listen) ["status", "resume"].forEach(post);
      this.#timers = [
        setTimeout(() => this.#open(), 1.9 * HOUR), // API Gateway closes a connection after two hours
        setInterval(post, 4 * MINUTE, "ping"), // … and after ten minutes without a frame
        this.#query.listen ? 0 : setInterval(() => this.state === "waiting" && post("ping"), 6000), // anyone will do now
      ];
      this.#emit("open");
    };
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = () => {
      if (this.#isClosed || (this.#socket && this.#socket !== socket)) return;
      this.#socket = null;
      this.#end();
      this.#emit("offline");
      setTimeout(() => this.#open(), Math.min(500 * 2 ** this.#tries++, 15_000) * (0.75 + Math.random() / 2));
    };
  }

  #end() {
    this.#timers.forEach((timer) => clearTimeout(timer)); // and the intervals
    for (const { reject } of this.#waiting.values()) reject(new HubbubError("Offline", "The connection was lost."));
    this.#waiting.clear();
  }

  #receive(frame) {
    const sent = frame.ref && this.#waiting.get(frame.ref);
    if (sent) {
      this.#waiting.delete(frame.ref);
      if (frame.type === "ack") sent.resolve();
      else sent.reject(new HubbubError(frame.code));
    } else if (frame.type === "resume") this.resumeToken = frame.token;
    else this.receive?.(frame);
  }

  #emit(type, detail) {
    this.dispatchEvent(Object.assign(new Event(type), { detail }));
  }
}

export class Listener {
  topics = new Map();
  #connection;

  constructor(address, options) {
    this.#connection = new Connection(address, { listen: 1 }, options);
    this.#connection.addEventListener("open", () => this.topics.forEach((_, topic) => this.#subscribe(topic)));
    this.#connection.addEventListener("offline", () => this.topics.forEach(({ onState }) => onState(false)));
    this.#connection.receive = ({ type, topic, value }) => {
      const subscriber = this.topics.get(topic);
      if (type === "update" && subscriber) subscriber.isUpdated = true;
      // An update may overtake the first value, and is newer then.
      if (subscriber && (type === "update" || (type === "subscribed" && !subscriber.isUpdated))) subscriber.onValue(value);
    };
  }

  add(topic, subscriber) {
    this.topics.set(topic, subscriber);
    if (this.#connection.isOpen) this.#subscribe(topic);
  }

  /** Unsubscribe from a topic. Return whether it was the last, and the connection is closed. */
  remove(topic) {
    this.topics.delete(topic);
    if (this.topics.size) this.#connection.send({ action: "unsubscribe", topic }).catch(() => {});
    else this.#connection.close();
    return !this.topics.size;
  }

  async #subscribe(topic) {
    const subscriber = this.topics.get(topic);
    subscriber.isUpdated = false;
    try {
      await this.#connection.send({ action: "subscribe", topic });
      subscriber.onState(true);
    } catch (error) {
      if (error.code === "Offline" || this.topics.get(topic) !== subscriber) return;
      if (error.code !== "slow_down") return subscriber.onError(error);
      await pause(5000);
      if (this.topics.get(topic) === subscriber && this.#connection.isOpen) this.#subscribe(topic);
    }
  }
}
