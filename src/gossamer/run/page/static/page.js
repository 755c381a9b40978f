// Shows how far a job is, and loads the page again when the job has ended. All else works without this script.
const live = document.querySelector("[data-live]");

async function look() {
  const place = live.querySelector(".live");
  try {
    const answer = await fetch(live.dataset.live, { cache: "no-store" });
    if (answer.status === 204) {
      location.reload();
      return;
    }
    if (answer.ok) place.innerHTML = await answer.text();
    else place.textContent = "This page is out of date. Open the address that gossamer page has printed.";
  } catch {
    place.textContent = "The page has ended in the terminal, and the job goes on. Start gossamer page again to see it.";
  }
  setTimeout(look, 1000);
}

if (live) setTimeout(look, 1000);
