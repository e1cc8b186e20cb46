// The front page: what Hubbub is, and its features in the widgets that a site embeds, each beside its lines.

// First, because the widgets speak the language of the page.
import { allowsGuests, api, isLocal, refused, showHeader, socket, words } from "./lib/pages.js";
import { make, onSubmit } from "./lib/dom.js";
import { Hubbub } from "./lib/core.js";
import "./widgets/views.js";

// The other features load when they come near.
const WIDGETS = {
  leaderboard: () => import("./widgets/leaderboard.js"),
  challenge: () => import("./widgets/challenge.js"),
  comments: () => import("./widgets/comments.js"),
  chat: () => import("./widgets/chat.js"),
};
const NEAR = "300px"; // from the window
const CONFIRMED = 2000; // ms
const FILLING = 15; // seconds for which the demo is being filled
const text = words.front;
const sections = [...document.querySelectorAll("main section")];
const hub = new Hubbub(api);

// -- the frame -----------------------------------------------------------------------------------------

function showFrame() {
  const navigation = document.querySelector("nav");
  navigation.ariaLabel = text.sections;
  navigation.append(...sections.map(({ id }) => make("a", { href: `#${id}` }, text.features[id][0])));
  showHeader();
  const link = (href, label) => make("a", { href }, label);
  document.querySelector(".foot").append(make("p", {}, `${text.foot} `, link(`${api}docs`, text.reference), ", ",
    link(`${api}openapi.json`, text.openapi), ", ", link("web/admin.html", text.admin), "."));
  document.querySelector(".hero").append(
    make("h1", {}, text.sentence),
    make("p", { className: "lead" }, text.lead),
    make("div", { className: "row" }, make("a", { className: "button primary", href: "web/dashboard.html" }, text.dashboard),
      ...(isLocal ? [fillButton()] : [])),
  );
  // Addresses in the link that are not allowed.
  if (refused.length) document.querySelector("main").before(make(
    "p", { className: "notice", id: "refused", role: "alert" }, text.refused(refused.map((name) => `?${name}=`)),
  ));
}

/** Create the button of a local run, whose server fills the features with data. */
function fillButton() {
  const button = make("button", { type: "button", id: "fill", onclick: fill }, text.fill);
  async function fill() {
    button.disabled = true;
    button.textContent = text.filling;
    const headers = { "Content-Type": "application/json" };
    await fetch(`${api}local/demo`, { method: "POST", headers, body: "{}" }).catch(() => {}); // the widgets show the error
    for (let second = 0; second < FILLING; second += 1) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      for (const widget of document.querySelectorAll("[data-state=empty], [data-state=error]")) widget.refresh();
    }
    button.disabled = false;
    button.textContent = text.fill;
  }
  return button;
}

// -- the features --------------------------------------------------------------------------------------

function showFeature(section) {
  const { id, dataset: { name } } = section, [title, sentence, label] = text.features[id];
  const parts = [...section.querySelector("template").content.children];
  const named = parts.find((part) => part.hasAttribute(name));
  if (!allowsGuests) parts.forEach((part) => part.removeAttribute("guest"));
  named.setAttribute(name, remember(name) || named.getAttribute(name));
  const shown = parts.map(connected);
  const code = make("code", {}, lines(parts));
  const copy = make("button", { type: "button", className: "copy", onclick: () => copyText(copy, code) }, words.copy);
  const field = make("input", { value: named.getAttribute(name), autocomplete: "off", autocapitalize: "none", spellcheck: false, required: true });
  const form = make("form", { className: "row choose" }, make("label", { className: "grow" }, `${label} `, field), make("button", {}, words.show));
  onSubmit(form, () => {
    const value = field.value.trim();
    for (const part of [named, shown[parts.indexOf(named)]]) part.setAttribute(name, value);
    code.textContent = lines(parts);
    remember(name, value);
  });
  section.setAttribute("aria-labelledby", `${id}-title`);
  section.append(
    make("header", {}, make("h2", { id: `${id}-title` }, title), make("p", {}, sentence)),
    make("div", { className: "shown" }, ...shown, ...(id === "views" && isLocal ? sender() : [])),
    make("aside", { ariaLabel: `${title}: ${text.lines}` },
      make("figure", { className: "snippet" }, make("figcaption", {}, text.lines, copy), make("pre", { tabIndex: 0, ariaLabel: text.lines }, code)), form),
  );
}

/** Load the widget of a feature when it comes near, or at once if the address names one of its comments. */
function loadWhenNear(section) {
  const load = () => WIDGETS[section.id]().catch(() => section.querySelector(".shown").append(
    make("p", { className: "problem", role: "alert" }, words.errors.Offline),
  ));
  const sight = new IntersectionObserver((seen) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    sight.disconnect();
    load();
  }, { rootMargin: NEAR });
  if (location.hash.startsWith("#comment-") && section.id === "comments") load();
  else sight.observe(section);
}

/** Return a copy of an element that is connected to the API of this page, which may be on another host. */
function connected(part) {
  const copy = part.cloneNode();
  copy.setAttribute(isScript(part) ? "data-api" : "api", api);
  if (socket && !isScript(part)) copy.setAttribute("socket", socket);
  return copy;
}

/** Return the HTML that shows elements of this page on another page. */
function lines(parts) {
  const address = (file) => new URL(`web/${file}`, api).href;
  const [scripts, widgets] = [parts.filter(isScript), parts.filter((part) => !isScript(part))];
  const files = new Set(widgets.map(({ localName }) => localName.replace("hubbub-", "")));
  return [
    ...scripts.map(({ src }) => `<script async${isLocal ? " data-local" : ""} src="${address(src.split("/").pop())}"></script>`),
    ...[...files].map((file) => `<script type="module" src="${address(`widgets/${file}.js`)}"></script>`),
    ...widgets.map(({ outerHTML }) => outerHTML.replaceAll('=""', "")),
  ].join("\n");
}

const isScript = ({ localName }) => localName === "script";

/** Create the button that counts a view of this page by another visitor, and the line for its error. */
function sender() {
  const problem = make("p", { className: "problem", role: "alert" });
  const send = () => hub.request("POST views", {
    url: location.origin + location.pathname,
    time: new Date().toISOString(),
    clientId: crypto.getRandomValues(new Uint32Array(3)).join("-"),
  }).then(() => "", ({ code }) => words.errors[code] ?? words.failed).then((said) => { problem.textContent = said; });
  return [make("button", { type: "button", id: "send", onclick: send }, text.send), problem];
}

async function copyText(button, code) {
  await navigator.clipboard.writeText(code.textContent).then(
    () => { button.textContent = words.copied; },
    () => getSelection().selectAllChildren(code), // the browser forbids it
  );
  setTimeout(() => { button.textContent = words.copy; }, CONFIRMED);
}

/** Store what a feature shows for the next visit in this browser, or return what is stored. */
function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`hubbub.${name}`);
    localStorage.setItem(`hubbub.${name}`, value);
  } catch { /* the browser forbids storage */ }
  return null;
}

showFrame();
sections.forEach(showFeature);
document.querySelector("main").hidden = false; // all parts of it at once, so that none moves another
sections.filter(({ id }) => id in WIDGETS).forEach(loadWhenNear);
