// Partition keys of several levels.

import assert from "node:assert/strict";
import { range, refused, scenario } from "../harness.js";

const USERS = [["tenant-1", "anna"], ["tenant-1", "ben"], ["tenant-2", "anna"], ["tenant-3", "cleo"]];

async function filled(account) {
  const partitionKey = { paths: ["/tenant", "/user", "/session"], kind: "MultiHash", version: 2 };
  const container = await account.container({ partitionKey });
  for (const [tenant, user] of USERS) {
    for (const session of range(0, 3)) {
      await container.items.create({ id: `${tenant}.${user}.${session}`, tenant, user, session });
    }
  }
  return container;
}

const ask = async (container, query, options) => (await container.items.query(query, options).fetchAll()).resources;

scenario("items under hierarchical keys are read, replaced, patched and deleted", async (account) => {
  const container = await filled(account);
  const item = container.item("tenant-1.ben.2", ["tenant-1", "ben", 2]);
  const { resource } = await item.read();
  assert.equal(resource.user, "ben");
  assert.equal((await item.replace({ ...resource, note: "replaced" })).resource.note, "replaced");
  const patched = await item.patch([{ op: "set", path: "/note", value: "patched" }]);
  assert.equal(patched.resource.note, "patched");
  await item.delete();
  await refused(404, () => item.read());
});

scenario("a query by a prefix of the key sees what is under it", async (account) => {
  const container = await filled(account);
  for (const [prefix, count] of [[["tenant-1"], 6], [["tenant-1", "anna"], 3], [["tenant-3"], 3], [["nobody"], 0]]) {
    const found = await ask(container, "SELECT * FROM c", { partitionKey: prefix });
    assert.equal(found.length, count, prefix.join());
    assert.ok(found.every(({ tenant }) => tenant === prefix[0]));
  }
  const found = await ask(container, "SELECT * FROM c", { partitionKey: ["tenant-1", "anna", 1] });
  assert.deepEqual(found.map(({ id }) => id), ["tenant-1.anna.1"]);
});

scenario("a query across hierarchical keys finds its items", async (account) => {
  const container = await filled(account);
  assert.deepEqual(await ask(container, "SELECT VALUE COUNT(1) FROM c WHERE c.user = 'anna'"), [6]);
  const found = await ask(container, "SELECT VALUE c.id FROM c WHERE c.tenant = 'tenant-1' ORDER BY c.id");
  assert.deepEqual(found, ["anna", "ben"].flatMap((user) => range(0, 3).map((n) => `tenant-1.${user}.${n}`)));
});

scenario("a batch under a hierarchical key succeeds", async (account) => {
  const container = await filled(account);
  const resourceBody = { id: "new", tenant: "tenant-9", user: "dora", session: 1 };
  const { code } = await container.items.batch([{ operationType: "Create", resourceBody }], ["tenant-9", "dora", 1]);
  assert.equal(code, 200);
  assert.equal((await container.item("new", ["tenant-9", "dora", 1]).read()).resource.user, "dora");
});
