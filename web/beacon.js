// Hubbub's view beacon, docs/embed.md: sends one view after the page was visible for some seconds. Stores nothing.
(() => {
  // <img name=referrer> hides document.referrer, but not the prototype's.
  const read = (name) => Reflect.get(Document.prototype, name, document), listen = read("addEventListener");
  const find = (name, ...given) => read(name).call(document, ...given);

  // A module, a script loader or a tag manager may leave no current script. Then the file is known by its name,
  // by `data-api`, or by the address that runs.
  const here = /https?:\/\/[^\s()]+?(?=:\d+:\d+)/.exec(new Error().stack)?.[0], current = read("currentScript");
  const scripts = [...find("querySelectorAll", "script[src]")].filter((script) => script instanceof HTMLScriptElement);
  const named = scripts.filter((script) => script.dataset.api || /\/beacon\.js$/.test(script.src.split(/[?#]/)[0]));
  const matches = (script) => script === current || script.src === here;
  const script = named.find(matches) || named[0] || scripts.find(matches);
  const options = script?.dataset ?? {}, base = script?.src || here;
  // <a id=hubbub> is no property of the window itself.
  const before = Object.hasOwn(window, "hubbub") ? window.hubbub : {};
  if (!base || before?.counts === base) return;
  // Under a path of the operator's choice it posts to where it comes from.
  const file = base.split(/[?#]/)[0], isOwn = !options.api && !/\/beacon\.js$/.test(file);
  const target = isOwn ? file : options.api ? options.api.replace(/\/*$/, "/views") : new URL("../views", base);
  // Tracking parameters of campaigns and advertisers, never sent.
  const tracking = /^((utm|mtm|hsa)_.*|pk_(campaign|kwd)|_hsenc|_hsmi|_ga|_gl|[dg]clid|gclsrc|[gw]braid|(fb|tw|tt|y)clid|msclkid|igshid|li_fat_id|mc_[ce]id|mkt_tok|srsltid|irclickid|rdt_cid|sccid|epik)$/i;

  const isIgnored = () => {
    try {
      if (location.hash === "#hubbub-ignore") localStorage.hubbubIgnore = "1";
      return localStorage.hubbubIgnore === "1";
    } catch { return location.hash === "#hubbub-ignore"; } // storage is forbidden
  };
  // The page of a local run counts itself.
  const isLocal = location.origin !== new URL(base).origin && (location.protocol === "file:" || /^(.*\.)?localhost$|^127(\.\d+){3}$|^\[::1\]$|^0\.0\.0\.0$/.test(location.hostname));
  const counts = !navigator.globalPrivacyControl && ![navigator.doNotTrack, window.doNotTrack].includes("1")
    && !isIgnored() && ("local" in options || !isLocal) && ("frames" in options || window.self === window.top);

  // -- the page --

  // A route that changes without the canonical address has left it behind.
  const canonical = () => find("querySelector", "head > link[rel=canonical]")?.href;
  let seen = canonical(), stale;
  // A query may hold a secret such as a reset token, so it is sent only if the site says so.
  const address = () => {
    const link = canonical(), own = link && link !== stale && URL.canParse(link) && new URL(link);
    const page = own && own.host === location.host ? own : location;
    const query = options.query === "keep" ? page.search : "";
    const [path, ...rest] = (options.url || page.origin + page.pathname + query).replace(/#.*/, "").split("?");
    const kept = rest.join("?").split("&").filter((pair) => !tracking.test([...new URLSearchParams(pair).keys()][0]));
    return path + (kept.join("") && "?" + kept.join("&")) + ("hash" in options ? /^#!?\/.*/.exec(location.hash)?.[0] ?? "" : "");
  };

  const query = new URLSearchParams(location.search), first = (...names) => names.map((name) => query.get(name)).find(Boolean);
  // The first view names the other site and the campaign that led here. The page itself led to the others.
  let source = {
    referrer: read("referrer").split("/", 3).join("/") || undefined,
    source: first("utm_source", "ref", "source", "utm_medium"),
    campaign: first("utm_campaign"),
  };

  // -- events --

  const shown = () => find("querySelectorAll", "[data-hubbub-views]");
  const show = (answer) => answer.ok && answer.json().then(({ views }) => shown().forEach((element) => { element.textContent = views.toLocaleString(); }));
  const send = (more) => {
    const now = new Date().toISOString(), asks = !more.goal && shown().length > 0;
    const body = JSON.stringify({
      url: address(), time: now, sent: now, ...more,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      clientId: options.client, automated: navigator.webdriver || undefined,
    });
    // A retry of the same event counts once.
    const headers = { "Content-Type": "text/plain", ...(asks && { Prefer: "return=representation" }) };
    const post = (tries) => fetch(target, { method: "POST", body, keepalive: true, credentials: "omit", headers })
      .then((answer) => { if (answer.status > 499) throw answer; return asks && show(answer); })
      .catch(() => tries && setTimeout(post, 5000, tries - 1));
    if (asks || !navigator.sendBeacon?.(target, body)) post(3);
  };
  const goal = (name) => { if (counts && name) send({ goal: String(name).slice(0, 64) }); };
  window.hubbub = Object.assign(before ?? {}, { goal, counts: base });
  if (!counts) {
    if (shown().length && !isOwn) fetch(`${target}?url=${encodeURIComponent(address())}`, { credentials: "omit" }).then(show, () => {});
    return;
  }

  // -- views --

  let left, since, timer, last;
  // A prerendered page is hidden until it is shown.
  const watch = () => {
    clearTimeout(timer);
    if (since) left -= performance.now() - since;
    since = left > 0 && read("visibilityState") === "visible" && performance.now();
    if (since) timer = setTimeout(() => { left = since = 0; send(source); source = { referrer: location.origin }; seen = canonical(); }, left);
  };
  const begin = () => {
    left = 1000 * (options.seconds || 3);
    since = 0;
    last = address();
    watch();
  };
  const move = () => {
    if (canonical() === seen) stale = seen;
    if (address() !== last) begin();
  };

  begin();
  listen.call(document, "visibilitychange", watch);
  listen.call(window, "pageshow", (event) => event.persisted && begin()); // restored from the browser's memory
  listen.call(window, "hubbub:view", begin); // another page of a one-page application
  if (options.auto !== "off") {
    const { pushState } = history;
    history.pushState = function push(...given) {
      pushState.apply(this, given);
      move();
    };
    listen.call(window, "popstate", move);
    if ("hash" in options) listen.call(window, "hashchange", move);
  }

  // -- goals --

  const closest = (event, selector) => event.target instanceof Element && event.target.closest(selector);
  const click = (event) => {
    const element = closest(event, "[data-hubbub-goal]:not(form)"), link = "links" in options && closest(event, "a[href]");
    if (element) goal(element.dataset.hubbubGoal);
    if (!link || !/^https?:$/.test(link.protocol)) return;
    if (link.host !== location.host) goal(`Outbound: ${link.hostname}`);
    else if (link.hasAttribute("download") || /\.(pdf|zip|gz|tgz|7z|rar|dmg|exe|msi|apk|iso|docx?|xlsx?|pptx?|csv|epub|mp[34]|wav|mov|avi|mkv)$/i.test(link.pathname)) goal(`Download: ${link.pathname.split("/").pop()}`);
  };
  listen.call(document, "click", click, true);
  listen.call(document, "auxclick", click, true);
  listen.call(document, "submit", (event) => { const form = closest(event, "form[data-hubbub-goal]"); if (form) goal(form.dataset.hubbubGoal); }, true);
})();
