// Votes for comments. The API counts them and does not list them, so this browser remembers the votes of its visitors.
// A vote from another browser is unknown here. Casting it again changes nothing.

const KEY = "hubbub.votes";
const MOST = 1000;

let votes = []; // where the browser forbids storage, they last until the page is closed

function read() {
  try {
    votes = JSON.parse(localStorage.getItem(KEY)) ?? votes;
  } catch { /* there is no storage, or something else in it */ }
  return votes;
}

function remember(vote, isCast) {
  votes = [...read().filter((one) => one !== vote), ...(isCast ? [vote] : [])].slice(-MOST);
  try {
    localStorage.setItem(KEY, JSON.stringify(votes));
  } catch { /* the browser forbids storage */ }
}

/** Return whether a visitor has voted for a comment in this browser. */
export const hasVoted = (visitor, id) => read().includes(`${visitor} ${id}`);

/**
 * Vote for a comment, or withdraw the vote, and set the number of its votes. `send` sends a call of the API. `visitor`
 * returns the visitor's id, which a guest may have only after the call.
 */
export async function toggleVote(send, visitor, product, comment) {
  const { id } = comment, isCast = !hasVoted(await visitor(), id);
  const body = await send(isCast ? "putVote" : "deleteVote", { product, id });
  comment.votes = isCast ? body.votes : Math.max(0, comment.votes - 1);
  remember(`${await visitor()} ${id}`, isCast);
}
