// Hubbub's view beacon, docs/embed.md: sends one view after the page was visible for some seconds. Stores nothing.
(() => {
  // <img name=referrer> hides document.referrer, but not the prototype's.
  const read = (name) => Reflect.get(Document.prototype, name, document), listen = read("addEventListener");
  const script = read("currentScript");
  if (!(script instanceof HTMLScriptElement)) return;
  const options = script.dataset;
  if (navigator.globalPrivacyControl || [navigator.doNotTrack, window.doNotTrack].includes("1")) return;
  const target = options.api ? options.api.replace(/\/*$/, "/views") : new URL("../views", script.src);
  // Tracking parameters of campaigns and advertisers, never sent.
  const tracking = /^((utm|mtm|hsa)_.*|pk_(campaign|kwd)|_hsenc|_hsmi|_ga|_gl|[dg]clid|gclsrc|[gw]braid|(fb|tw|tt|y)clid|msclkid|igshid|li_fat_id|mc_[ce]id|mkt_tok|srsltid|irclickid|rdt_cid|sccid|epik)$/i;
  let left, since, timer;
  // The first view names the other site and the campaign that led here.
  let source = {
    referrer: read("referrer").split("/", 3).join("/") || undefined,
    campaign: new URLSearchParams(location.search).get("utm_campaign") || undefined,
  };

  // A query may hold a secret such as a reset token, so it is sent only if the site says so.
  const address = () => {
    const page = new URL(read("querySelector").call(document, "head > link[rel=canonical]")?.href || location.href);
    const query = options.query === "keep" ? page.search : "";
    const [path, ...rest] = (options.url || page.origin + page.pathname + query).replace(/#.*/, "").split("?");
    const kept = rest.join("?").split("&").filter((pair) => !tracking.test([...new URLSearchParams(pair).keys()][0]));
    return path + (kept.join("") && "?" + kept.join("&"));
  };

  const send = () => {
    const body = JSON.stringify({
      url: address(),
      time: new Date().toISOString(),
      ...source,
      clientId: options.client || Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(36)).join(""),
    });
    source = {};
    // A retry of the same view counts once.
    const post = (tries) => fetch(target, { method: "POST", body, keepalive: true, credentials: "omit", headers: { "Content-Type": "text/plain" } })
      .then((answer) => { if (answer.status > 499) throw answer; })
      .catch(() => tries && setTimeout(post, 5000, tries - 1));
    if (!navigator.sendBeacon?.(target, body)) post(3);
  };

  // A prerendered page is hidden until it is shown.
  const watch = () => {
    clearTimeout(timer);
    if (since) left -= performance.now() - since;
    since = left > 0 && read("visibilityState") === "visible" && performance.now();
    if (since) timer = setTimeout(() => { left = since = 0; send(); }, left);
  };

  const begin = () => {
    left = 1000 * (options.seconds || 3);
    since = 0;
    watch();
  };

  begin();
  listen.call(document, "visibilitychange", watch);
  listen.call(window, "pageshow", (event) => event.persisted && begin()); // restored from the browser's memory
  listen.call(window, "hubbub:view", begin); // another page of a one-page application
})();
