// <hubbub-chat lobby="main">: talk with a stranger. Nothing is sent before the visitor starts.

import "../lib/chat.js";
import { make, onSubmit, write } from "../lib/dom.js";
import { Widget } from "./element.js";

const TYPING_SHOWN = 2500; // ms for which "is typing" is shown
const TYPING_INTERVAL = 1500; // ms between two "typing" frames
const LONGEST = 2000; // characters of a message
const RESUMABLE = 60_000; // ms for which the server keeps a lost connection's place
const REPORTABLE = 60_000; // ms for which a partner that has left can be reported

class Chat extends Widget {
  static observedAttributes = ["api", "socket", "lobby", "interests", "lang"];
  static words = { en: () => import("../words-en/chat.js"), de: () => import("../words-de/chat.js") };
  static socket = undefined; // the stage names its own
  #chat = null; #typingSent = 0; #typingTimer = 0;
  #before = ""; // the last state before the connection was lost
  #pair = ""; // the pair whose messages are shown
  #isReportable = false; #reportTimer = 0; // the partner, or for a minute the last one
  #parting = null; // what is shown when the visitor leaves the partner; null if the partner leaves
  #title = make("h3", { part: "title" });
  #status = make("p", { part: "status", role: "status" });
  #log = make("div", { part: "messages", role: "log", tabIndex: 0, hidden: true });
  #note = make("p", { part: "note", className: "quiet", ariaLive: "polite" });
  #label = make("span");
  #message = make("input", { name: "text", maxLength: LONGEST, autocomplete: "off", required: true, oninput: () => this.#sendTyping() });
  #send = make("button", { className: "primary" });
  #form = make("form", { part: "form", className: "row", hidden: true },
    make("label", { className: "grow" }, this.#label, this.#message), this.#send);
  #next = make("button", { type: "button", onclick: () => this.#goOn() });
  #leave = make("button", { type: "button", onclick: () => this.#part("leave") });
  #report = make("button", { type: "button", ariaExpanded: "false", onclick: () => this.#toggleReport() });
  #reasonLabel = make("span");
  #reason = make("select", { name: "reason" });
  #sendReport = make("button");
  #reportForm = make("form", { part: "report", className: "row", hidden: true },
    make("label", {}, this.#reasonLabel, this.#reason), this.#sendReport);
  #suspend = () => this.#keep();
  #restore = (event) => event.persisted && this.#resume();

  constructor() {
    super(STYLE);
    onSubmit(this.#form, () => this.#say());
    onSubmit(this.#reportForm, () => this.#sendTheReport());
    const tools = make("div", { part: "tools", className: "row" }, this.#next, this.#leave, this.#report);
    this.root.append(this.#title, this.#status, this.stateLine, this.#log, this.#note, this.#form, tools, this.#reportForm);
  }

  get #lobby() { return this.getAttribute("lobby") || "main"; }
  get #interests() { return (this.getAttribute("interests") ?? "").split(",").map((interest) => interest.trim()).filter(Boolean); }
  get #key() { return `hubbub.chat ${this.api} ${this.#lobby}`; }

  begin() {
    const { text } = this;
    [this.#title.textContent, this.#label.textContent, this.#send.textContent] = [text.title, text.message, text.send];
    [this.#leave.textContent, this.#report.textContent, this.#sendReport.textContent] = [text.leave, text.report, text.sendReport];
    [this.#log.ariaLabel, this.#reasonLabel.textContent] = [text.messages, text.reason];
    this.#reason.replaceChildren(...text.reasons.map((reason) => make("option", {}, reason)));
    this.#log.replaceChildren();
    addEventListener("pagehide", this.#suspend);
    addEventListener("pageshow", this.#restore);
    this.#resume();
  }

  end() {
    removeEventListener("pagehide", this.#suspend);
    removeEventListener("pageshow", this.#restore);
    clearTimeout(this.#typingTimer);
    clearTimeout(this.#reportTimer);
    const chat = this.#chat;
    this.#chat = null;
    chat?.close();
  }

  // -- the connection ----------------------------------------------------------------------------------

  /** Take the place that a reload has suspended. Otherwise wait until the visitor starts. */
  #resume() {
    const stored = takeSuspended(this.#key);
    this.#chat = null;
    this.setState("ready");
    if (stored) this.#connect(stored.token);
    else this.#draw();
  }

  /** Store what resumes the chat in the storage of this tab, and suspend it. */
  #keep() {
    try {
      const { resumeToken, state } = this.#chat ?? {};
      if (resumeToken && state !== "idle") sessionStorage.setItem(this.#key, JSON.stringify({ token: resumeToken, at: Date.now() }));
      else sessionStorage.removeItem(this.#key);
    } catch { /* the browser forbids storage: a reload ends the chat */ }
    this.#chat?.suspend();
  }

  #connect(token = "") {
    const chat = this.hub.chat(this.#lobby, { interests: this.#interests, resume: token });
    const on = (type, act) => chat.addEventListener(type, ({ detail }) => chat === this.#chat && act(detail));
    this.#chat = chat;
    [this.#before, this.#pair, this.#isReportable] = [token ? "matched" : "", "", false];
    on("state", (state) => this.#showState(state));
    on("message", ({ text, time }) => {
      this.#showTyping(false);
      this.#add("theirs", text, time);
    });
    on("typing", () => this.#showTyping(true));
    on("error", (error) => this.#tell(error));
    on("failed", (error) => {
      this.#chat = null;
      this.#draw();
      if (error.code === "NotFound") this.setState("error", this.text.unavailable);
      else this.showError(error);
    });
    this.setState("loading");
    this.#draw();
  }

  #showState(state) {
    const { text } = this, before = this.#before, { pair } = this.#chat;
    if (state === "matched") {
      if (pair === this.#pair || (before === "matched" && !this.#pair)) this.#addEvent(text.back);
      else this.#log.replaceChildren(); // another partner
      this.#pair = pair;
      this.#letReport(true);
    } else if (before === "matched" && state !== "offline" && this.#parting !== "") this.#addEvent(this.#parting ?? text.strangerLeft);
    if (before === "matched" && !["matched", "offline"].includes(state)) this.#letReport(this.#isReportable, REPORTABLE);
    if (state !== "offline") [this.#before, this.#parting] = [state, null];
    this.setState(state === "offline" ? "offline" : "ready");
    this.#showTyping(false);
    this.#draw();
    this.emit("state", { state });
  }

  // -- what the visitor does ---------------------------------------------------------------------------

  #goOn() {
    if (!this.#chat) this.#connect();
    else this.#part(this.#chat.state === "idle" ? "find" : "next");
  }

  #part(action) {
    this.#parting = this.text.youLeft;
    this.#chat[action]().catch((error) => this.#tell(error));
  }

  #say() {
    const said = this.#message.value;
    if (this.#chat?.state !== "matched" || !said.trim()) return;
    this.#message.value = this.#note.textContent = "";
    this.#deliver(said);
  }

  /** Show a message and send it. One that was refused is marked, and can be sent again. */
  async #deliver(said) {
    const { text } = this, line = this.#add("mine", said, new Date());
    line.classList.add("sending");
    try {
      await this.#chat.sendMessage(said);
    } catch (error) {
      const again = make("button", { type: "button", className: "link", onclick: () => {
        if (this.#chat?.state !== "matched") return;
        line.remove();
        this.#deliver(said);
        this.#message.focus();
      } }, text.sendAgain);
      line.append(make("span", { className: "problem" }, `${text.notSent} ${this.explain(error)} `, again));
    }
    line.classList.remove("sending");
  }

  #sendTyping() {
    if (this.#chat?.state !== "matched" || Date.now() - this.#typingSent < TYPING_INTERVAL) return;
    this.#typingSent = Date.now();
    this.#chat.sendTyping();
  }

  #toggleReport() {
    this.#reportForm.hidden = !this.#reportForm.hidden;
    this.#report.ariaExpanded = String(!this.#reportForm.hidden);
    if (!this.#reportForm.hidden) this.#reason.focus();
  }

  /** Allow reports, for some time or until another call. */
  #letReport(isAllowed, ms) {
    clearTimeout(this.#reportTimer);
    this.#isReportable = isAllowed;
    if (ms) this.#reportTimer = setTimeout(() => this.#letReport(false), ms);
    this.#draw();
  }

  async #sendTheReport() {
    this.#parting = "";
    try {
      await this.#chat.report(this.#reason.value);
      this.#addEvent(this.text.reported);
      this.#letReport(false);
    } catch (error) {
      this.#tell(error);
    }
    this.#next.focus();
  }

  // -- show --------------------------------------------------------------------------------------------

  #draw() {
    const { text } = this, state = this.#chat?.state ?? "out";
    write(this.#status, text.states[state]);
    this.#status.dataset.state = state;
    const hasEnded = ["out", "idle"].includes(state);
    this.#next.textContent = hasEnded ? text.start : text.next;
    this.#next.className = hasEnded ? "primary" : "";
    this.#next.disabled = state === "offline";
    this.#leave.hidden = this.#report.hidden = state === "out";
    this.#leave.disabled = !["waiting", "matched"].includes(state);
    this.#send.disabled = state !== "matched";
    this.#report.disabled = state === "offline" || !this.#isReportable;
    if (this.#report.disabled) {
      this.#reportForm.hidden = true;
      this.#report.ariaExpanded = "false";
    }
    this.#message.readOnly = state !== "matched";
    this.#form.hidden = this.#log.hidden = this.#note.hidden = state === "out";
  }

  #add(kind, said, time) {
    const at = new Date(time), { text, formats } = this;
    const line = make("p", { part: `message ${kind}`, className: kind },
      make("span", { className: "hidden" }, `${kind === "mine" ? text.you : text.stranger}: `), make("bdi", {}, said), " ",
      make("time", { dateTime: at.toISOString(), title: formats.localTime(at), className: "quiet" }, formats.clock(at)));
    return this.#append(line);
  }

  #addEvent(said) { this.#append(make("p", { part: "event", className: "event quiet" }, said)); }

  #append(line) {
    this.#log.append(line);
    this.#log.scrollTop = this.#log.scrollHeight;
    return line;
  }

  #showTyping(isTyping) {
    clearTimeout(this.#typingTimer);
    this.#note.textContent = isTyping ? this.text.typing : "";
    if (isTyping) this.#typingTimer = setTimeout(() => this.#showTyping(false), TYPING_SHOWN);
  }

  #tell({ code }) { this.#note.textContent = this.words.errors[code] ?? this.words.failed; }
}

/** Return what was stored under a key, once and within a minute, or null. */
function takeSuspended(key) {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key));
    sessionStorage.removeItem(key);
    return stored && Date.now() - stored.at <= RESUMABLE ? stored : null;
  } catch {
    return null; // nothing to resume
  }
}

const STYLE = `
.root { min-height: 96px; }
p[part=status] { display: block; min-height: 1.45em; }
@media (max-width: 600px) { p[part=status] { min-height: 2.9em; } }
p[part=note] { display: block; min-height: 1.45em; } /* also while it is empty, so that nothing moves when somebody types */
[part=messages] { display: grid; gap: 6px; align-content: start; height: 14rem; padding: 10px; overflow-y: auto; border: 1px solid var(--h-line); border-radius: 8px; }
.mine, .theirs { max-width: 85%; padding: 6px 10px; border-radius: 10px; white-space: pre-line; }
.mine { justify-self: end; background: var(--h-tint); }
.theirs { justify-self: start; border: 1px solid var(--h-line); }
.event { justify-self: center; }
.sending { opacity: .6; }
.problem { display: block; padding: 0; background: none; font-size: 13px; }
[part=report] label { display: flex; align-items: center; gap: 8px; }
[part=report] select { min-height: 34px; padding: 4px 8px; color: var(--h-ink); font-size: 15px; }
[part=status][data-state=matched] { color: var(--h-accent); font-weight: 600; }
`;

customElements.define("hubbub-chat", Chat);
