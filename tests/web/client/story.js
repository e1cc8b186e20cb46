// What a site does with the client, against a running product. The same story runs in Node and in a browser.

const until = async (condition) => {
  for (const end = Date.now() + 30_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error(`not within 30 s: ${condition}`);
};
const refusal = (promise) => promise.then(() => "accepted", ({ name, code, status }) => [name, code, status]);

export async function run({ Hubbub }, api, admin) {
  const told = {}, calls = [];
  const site = new Hubbub(api, { onCall: ({ method, path, status }) => calls.push(`${method} ${path} ${status}`) });
  const chief = new Hubbub(api, { token: admin });

  // A signed-in guest with a score, a name and a rank.
  await chief.putBoard({ board: "race/1", title: "Race", operator: "best" });
  const first = await site.signInAsGuest("Bo"), second = await site.signInAsGuest("Bo", { fresh: true });
  told.fresh = first.sub !== second.sub;
  const guest = await site.signInAsGuest("Ann\u200b Lee ");
  told.guest = [guest.name, guest.sub === second.sub];
  const signIns = () => calls.filter((call) => call === "POST /guests 201").length, before = signIns();
  for (const name of ["Ann\u200b Lee ", "Ann\u200b Lee", "Ann Lee", undefined]) await site.signInAsGuest(name);
  told.signIns = signIns() - before;
  await site.postScore({ board: "race/1", id: "1", value: 12 });
  const again = await site.request("postScore", { board: "race/1", id: "1", value: 12 });
  told.again = [again.status, again.body.score, again.body.rank];
  const { score, rank, of, toNext } = await site.postScore({ board: "race/1", id: "2", value: 13, standing: true });
  told.standing = [score, rank, of, toNext];
  told.rank = (await until(async () => {
    const standing = await site.getPlayer({ board: "race/1", player: guest.sub }).catch(() => null);
    return standing?.rank && standing;
  })).rank;
  told.encoded = calls.includes("POST /leaderboards/race%2F1/scores 201");

  // A URL parser would remove such a name from the path, with the name before it, so nothing is sent.
  const sent = calls.length, removed = [".", "..", "%2e", ".%2E", "", undefined];
  told.dots = await Promise.all(removed.map((path) => refusal(site.deleteChallengePath({ challenge: "hunt", player: "p", path }))));
  told.dotsSent = calls.length - sent;

  // Comments, page by page, and an ETag.
  for (let number = 0; number < 5; number += 1) {
    const author = new Hubbub(api);
    author.token = (await author.postGuest({ name: `author ${number}` })).token;
    await author.postComment({ product: "shoe", rating: 5, language: "en", text: `text ${number}` });
  }
  const mine = await site.postComment({ product: "shoe", rating: 4, language: "en", text: "mine" }, { idempotencyKey: "c-1" });
  told.retried = (await site.postComment({ product: "shoe", rating: 4, language: "en", text: "mine" }, { idempotencyKey: "c-1" })).id === mine.id;
  const names = [];
  for await (const { name } of site.getComments({ product: "shoe", limit: 2 })) names.push(name);
  told.names = names;
  told.firstPage = (await site.getComments({ product: "shoe", limit: 2 })).items.length;
  const { etag } = await site.request("getComment", { product: "shoe", id: mine.id });
  await site.patchComment({ product: "shoe", id: mine.id, rating: 5 }, { ifMatch: etag });
  told.outdated = await refusal(site.patchComment({ product: "shoe", id: mine.id, rating: 3 }, { ifMatch: etag }));
  told.deleted = await site.deleteComment({ product: "shoe", id: mine.id });

  // Errors have a code.
  told.malformed = await refusal(site.getViews({ url: "nonsense" }));
  told.forbidden = await refusal(site.getLag());
  told.offline = await refusal(new Hubbub("http://127.0.0.1:9/").getHealth());

  // A refused token is refreshed once.
  const asked = [];
  const fresh = new Hubbub(api, { token: (isRefused) => { asked.push(isRefused); return isRefused ? admin : "outdated"; } });
  told.refreshed = [(await fresh.getQuarantine()).items.length, (await fresh.getQuarantine()).items.length, asked];
  told.unknown = await refusal(new Hubbub(api, { token: () => "outdated" }).getQuarantine());

  // A live value: the current one first, then the one after each change.
  const url = "https://example.org/live", values = [];
  const stop = site.live(`views:${url}`, ({ views, visitors }) => values.push([views, visitors]));
  await until(() => values.length);
  await site.postViews({ url, time: new Date().toISOString(), clientId: "c-1" });
  await until(() => `${values.at(-1)}` === "1,1");
  told.values = values;
  const errors = [];
  const stopOther = site.live("stars:1", () => {}, { onError: ({ code }) => errors.push(code) });
  await until(() => errors.length);
  told.topic = errors;
  stop();
  stopOther();

  // Two visitors of a chat.
  const one = site.chat("story"), other = new Hubbub(api).chat("story"), heard = [];
  other.addEventListener("message", ({ detail }) => heard.push(detail.text));
  await until(() => one.state === "matched" && other.state === "matched");
  await one.sendMessage("hello");
  told.heard = heard;
  await one.leave();
  told.alone = await refusal(one.sendMessage("anybody?"));
  told.states = [one.state, await until(() => other.state === "waiting" && other.state)];
  one.close();
  other.close();
  told.closed = await refusal(other.sendMessage("x"));
  return told;
}
