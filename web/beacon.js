// Hubbub's view beacon, docs/drop-ins.md: one view, once the page was in sight for some seconds; nothing is stored.
(() => {
  const script = document.currentScript, said = script.dataset;
  if (navigator.globalPrivacyControl || [navigator.doNotTrack, window.doNotTrack].includes("1")) return;
  const target = said.api ? said.api.replace(/\/*$/, "/views") : new URL("../views", script.src);
  // What campaigns and advertisers add to an address; never sent.
  const tracking = /^((utm|mtm|hsa)_.*|pk_(campaign|kwd)|_hsenc|_hsmi|_ga|_gl|[dg]clid|gclsrc|[gw]braid|(fb|tw|tt|y)clid|msclkid|igshid|li_fat_id|mc_[ce]id|mkt_tok|srsltid|irclickid|rdt_cid|sccid|epik)$/i;
  let left, since, timer;

  // A query may hold a secret, such as a reset token: it is sent only where the site says so.
  const address = () => {
    const page = new URL(document.querySelector("link[rel=canonical]")?.href || location.href);
    const query = said.query === "keep" ? page.search : "";
    const [path, ...rest] = (said.url || page.origin + page.pathname + query).replace(/#.*/, "").split("?");
    const kept = rest.join("?").split("&").filter((pair) => !tracking.test([...new URLSearchParams(pair).keys()][0]));
    return path + (kept.join("") && "?" + kept.join("&"));
  };

  const seen = () => {
    const body = JSON.stringify({
      url: address(),
      time: new Date().toISOString(),
      clientId: said.client || Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(36)).join(""),
    });
    // The same view sent again counts once.
    const post = (tries) => fetch(target, { method: "POST", body, keepalive: true, credentials: "omit", headers: { "Content-Type": "text/plain" } })
      .then((answer) => { if (answer.status > 499) throw answer; })
      .catch(() => tries && setTimeout(post, 5000, tries - 1));
    if (!navigator.sendBeacon?.(target, body)) post(3);
  };

  // A page that is loaded ahead of its time (prerendered) is hidden until it is shown.
  const watch = () => {
    clearTimeout(timer);
    if (since) left -= performance.now() - since;
    since = left > 0 && document.visibilityState === "visible" && performance.now();
    if (since) timer = setTimeout(() => { left = since = 0; seen(); }, left);
  };

  const begin = () => {
    left = 1000 * (said.seconds || 3);
    since = 0;
    watch();
  };

  begin();
  document.addEventListener("visibilitychange", watch);
  addEventListener("pageshow", (event) => event.persisted && begin()); // back again, out of the browser's memory
  addEventListener("hubbub:view", begin); // another page of a one-page application
})();
