// The chat of the client (hubbub.js).

import { Connection, Hubbub, HubbubError, pause } from "./core.js";

const PATIENCE = 5000; // ms
const LIMITS = { messages: 20, reportBytes: 6000 }; // of a report
const encoder = new TextEncoder();

class Chat extends Connection {
  state = "offline"; pair;
  #messages = []; #received = []; #confirmed = 0; #acknowledged = 0; #changes = 0;

  constructor(...given) {
    super(...given);
    this.addEventListener("offline", () => this.#setState("offline"));
  }

  // A partner that confirms nothing for five seconds may be out of reach. The server parts the two then.
  sendMessage(text) {
    const { pair } = this;
    return new Promise((resolve, reject) => {
      let timer;
      const wait = () => { timer = setTimeout(check, PATIENCE); };
      const check = async () => {
        if (Date.now() - this.#acknowledged < PATIENCE) return wait();
        await Promise.race([this.send({ action: "check", pair }).catch(() => {}), pause(PATIENCE)]);
        reject(new HubbubError("unconfirmed"));
      };
      wait();
      this.send({ action: "message", text, pair }).then(() => {
        this.#acknowledged = Date.now();
        this.#record(text, true);
        resolve();
      }, reject).finally(() => clearTimeout(timer));
    });
  }

  async sendTyping() { this.post({ action: "typing", pair: this.pair }); }
  next() { return this.#change("next", "waiting", this.state === "matched" && { pair: this.pair }); }
  find() { return this.#change("find", "waiting"); }
  leave() { return this.#change("leave", "idle"); }

  report(reason) {
    const messages = [...this.#messages];
    while (encoder.encode(JSON.stringify(messages)).length > LIMITS.reportBytes) messages.shift();
    const state = this.state === "matched" ? "waiting" : this.state;
    return this.#change("report", state, { reason, messages, pair: this.pair });
  }

  close() {
    super.close();
    this.#setState("offline");
  }

  receive(frame) {
    const { type, pair } = frame;
    if (type === "status" || type === "system") {
      if (pair && pair !== this.pair) [this.pair, this.#messages] = [pair, []];
      this.#setState(frame.state ?? (frame.code === "partner_connected" ? "matched" : "waiting"));
    } else if (!pair || pair === this.pair) { // and not from a partner that has just left
      if (type === "message") {
        this.#record(frame.text, false);
        if (frame.id) this.#confirm(frame.id);
      }
      this.dispatchEvent(Object.assign(new Event(type), { detail: frame }));
    }
  }

  // One receipt a second at most: it counts for the rate of frames.
  #confirm(id) {
    if (this.#received.push(id) > 1) return;
    setTimeout(() => {
      this.#confirmed = Date.now();
      this.post({ action: "received", ids: this.#received.splice(0) });
    }, this.#confirmed + 1000 - Date.now());
  }

  // A match may come before the reply, so the state changes first. After a refusal the server tells it.
  async #change(action, state, fields) {
    const change = ++this.#changes;
    if (this.isOpen && this.state !== (action === "find" ? "matched" : state)) this.#setState(state);
    try {
      await this.send({ action, ...fields });
      if (action === "leave" && change === this.#changes) this.#setState(state);
    } catch (error) {
      this.post({ action: "status" });
      if (action !== "next" || error.code !== "not_matched") throw error; // the partner has left before
    }
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(Object.assign(new Event("state"), { detail: state }));
  }

  #record(text, mine) {
    this.#messages = [...this.#messages, { text, mine }].slice(-LIMITS.messages);
  }
}

Hubbub.Chat = Chat;
